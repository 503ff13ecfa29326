// npm @libsql/client over http:
import { createClient } from "@libsql/client";
import { drive, read, rowsOf } from "./driver.mjs";

let client, transaction;

const shown = (result) => ({
    columns: result.columns,
    rows: rowsOf(result.rows),
    changes: result.rowsAffected,
    rowid: result.lastInsertRowid === undefined ? null : String(result.lastInsertRowid),
    types: result.columnTypes,
});
const statement = ([sql, args]) => (args === null ? sql : { sql, args: read(args) });

await drive({
    open({ url, token, key }) {
        transaction = undefined;
        client?.close();
        client = createClient({ url, authToken: token, intMode: "bigint", remoteEncryptionKey: key });
    },
    async execute({ sql, args }) {
        return shown(await (transaction ?? client).execute({ sql, args: read(args) ?? [] }));
    },
    async begin() {
        transaction = await client.transaction("write");
    },
    async commit() {
        await transaction.commit();
        transaction = undefined;
    },
    async rollback() {
        await transaction.rollback();
        transaction = undefined;
    },
    async batch({ statements, mode }) {
        return (await client.batch(statements.map(statement), mode ?? "write")).map(shown);
    },
    async migrate({ statements }) {
        await client.migrate(statements.map(statement));
    },
    async script({ sql }) {
        await client.executeMultiple(sql);
    },
    async readOnlyTransaction({ sql }) {
        const reading = await client.transaction("read");
        try {
            return shown(await reading.execute(sql));
        } finally {
            reading.close();
        }
    },
    async together({ sql, times }) {
        const results = await Promise.all(Array.from({ length: times }, () => client.execute(sql)));
        return results.map(shown);
    },
    protocol: () => client.protocol,
});
