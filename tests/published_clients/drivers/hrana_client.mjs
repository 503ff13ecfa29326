// npm @libsql/hrana-client over http: streams, stored texts, descriptions and batches by conditions.
import * as hrana from "@libsql/hrana-client";
import { drive, read, rowsOf } from "./driver.mjs";

let client, stream;

const shown = (result) => ({
    columns: result.columnNames,
    rows: rowsOf(result.rows),
    changes: result.affectedRowCount,
    rowid: result.lastInsertRowid === undefined ? null : String(result.lastInsertRowid),
    types: result.columnDecltypes.map((type) => type ?? null),
});

function statement(sql, args) {
    const made = new hrana.Stmt(sql);
    if (Array.isArray(args)) made.bindIndexes(read(args));
    else if (args !== null && args !== undefined)
        Object.entries(args).forEach(([name, value]) => made.bindName(name, read(value)));
    return made;
}

await drive({
    open({ url, token }) {
        client?.close();
        client = hrana.openHttp(url, token);
        client.intMode = "bigint";
        stream = client.openStream();
    },
    async execute({ sql, args }) {
        return shown(await stream.query(statement(sql, args)));
    },
    begin: () => stream.run("BEGIN IMMEDIATE").then(() => null),
    commit: () => stream.run("COMMIT").then(() => null),
    rollback: () => stream.run("ROLLBACK").then(() => null),
    async batch({ statements }) {
        const batch = stream.batch(false);
        const begin = batch.step();
        const done = [begin.run("BEGIN IMMEDIATE")];
        let last = begin;
        const results = statements.map(([sql, args]) => {
            const step = batch.step().condition(hrana.BatchCond.ok(last));
            last = step;
            return step.query(statement(sql, args));
        });
        const commit = batch.step().condition(hrana.BatchCond.ok(last));
        done.push(commit.run("COMMIT"));
        done.push(batch.step().condition(hrana.BatchCond.not(hrana.BatchCond.ok(commit))).run("ROLLBACK"));
        const settled = Promise.all([...results, ...done]); // listens before anything can fail
        await Promise.allSettled([batch.execute(), settled]);
        return (await settled).slice(0, statements.length).map(shown);
    },
    async describe({ sql }) {
        const found = await stream.describe(sql);
        return {
            parameters: found.paramNames.map((name) => name ?? null),
            columns: found.columns.map(({ name, decltype }) => [name, decltype ?? null]),
            explain: found.isExplain,
            readonly: found.isReadonly,
        };
    },
    script: ({ sql }) => stream.sequence(sql),
    async stored({ sql, times }) {
        const text = stream.storeSql(sql);
        const rows = [];
        for (let time = 0; time < times; time++) rows.push(...rowsOf((await stream.query(new hrana.Stmt(text))).rows));
        text.close();
        return rows;
    },
    async version() {
        return await client.getVersion();
    },
    async closeStream() {
        stream.closeGracefully();
        stream = client.openStream();
    },
});
