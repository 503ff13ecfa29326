// npm @tursodatabase/serverless: cursors, one stream per connection.
import { connect } from "@tursodatabase/serverless";
import { drive, read, rowsOf } from "./driver.mjs";

let connection;

const shown = (result) => ({
    columns: result.columns,
    rows: rowsOf(result.rows),
    changes: result.rowsAffected,
    rowid: result.lastInsertRowid === undefined ? null : String(result.lastInsertRowid),
});

await drive({
    async open({ url, token, key }) {
        await connection?.close();
        connection = connect({ url, authToken: token, remoteEncryptionKey: key });
        connection.defaultSafeIntegers(true);
    },
    async execute({ sql, args }) {
        const statement = await connection.prepare(sql);
        const given = read(args) ?? [];
        if (!statement.reader) {
            const done = await statement.run(given);
            return { columns: [], rows: [], changes: done.changes, rowid: String(done.lastInsertRowid) };
        }
        const columns = statement.columns().map(({ name }) => name);
        return { columns, rows: rowsOf(await statement.raw().all(given)), changes: 0, rowid: null };
    },
    begin: () => connection.exec("BEGIN IMMEDIATE").then(() => null),
    commit: () => connection.exec("COMMIT").then(() => null),
    rollback: () => connection.exec("ROLLBACK").then(() => null),
    async batch({ statements }) {
        const done = await connection.batch(statements.map(([sql, args]) => ({ sql, args: read(args) ?? [] })), {
            mode: "immediate",
            raw: true,
        });
        return done.map(shown);
    },
    async iterated({ sql }) {
        let count = 0;
        for await (const _ of (await connection.prepare(sql)).iterate()) count++;
        return count;
    },
    script: ({ sql }) => connection.exec(sql).then(() => null),
    inTransaction: () => connection.inTransaction,
});
