// npm libsql (the native client): prepared statements in the manner of better-sqlite3, by its promises.
import Database from "libsql/promise";
import { drive, read, rowsOf } from "./driver.mjs";

let database;

await drive({
    open({ url, token }) {
        database?.close();
        database = new Database(url, { authToken: token });
        database.defaultSafeIntegers(true);
    },
    async execute({ sql, args }) {
        const statement = await database.prepare(sql);
        const given = args === null || args === undefined ? [] : [read(args)];
        if (!statement.reader) {
            const done = await statement.run(...given);
            return { columns: [], rows: [], changes: done.changes, rowid: String(done.lastInsertRowid) };
        }
        const columns = statement.columns().map(({ name }) => name);
        return { columns, rows: rowsOf(await statement.raw().all(...given)), changes: 0, rowid: null };
    },
    begin: () => database.exec("BEGIN IMMEDIATE"),
    commit: () => database.exec("COMMIT"),
    rollback: () => database.exec("ROLLBACK"),
    script: ({ sql }) => database.exec(sql),
    inTransaction: () => database.inTransaction,
});
