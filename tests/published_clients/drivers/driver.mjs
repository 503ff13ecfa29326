// Drives one published package for the tests: a line of JSON in is a call, a line out is its answer.
//
// Values are tagged, so that nothing is lost on the way: {"int": "5"}, {"float": 1.5}, {"blob": "00ff"}, text, null.
import { createInterface } from "node:readline";

export function read(value) {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(read);
    if ("int" in value) return BigInt(value.int);
    if ("float" in value) return value.float;
    if ("blob" in value) return new Uint8Array(Buffer.from(value.blob, "hex"));
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, read(one)]));
}

export function show(value) {
    if (value === null || value === undefined) return null;
    if (typeof value === "bigint") return { int: value.toString() };
    if (typeof value === "number") return Number.isInteger(value) ? { int: String(value) } : { float: value };
    if (value instanceof ArrayBuffer) return { blob: Buffer.from(value).toString("hex") };
    if (ArrayBuffer.isView(value)) return { blob: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex") };
    return value;
}

export const rowsOf = (rows) => Array.from(rows, (row) => Array.from(row, show));

// Calls `client[do](call)` for each line, one after the other.
export async function drive(client) {
    for await (const line of createInterface({ input: process.stdin })) {
        const call = JSON.parse(line);
        let answer;
        try {
            answer = { ok: (await client[call.do](call)) ?? null };
        } catch (error) {
            answer = {
                error: {
                    kind: error?.constructor?.name ?? typeof error,
                    code: error?.code ?? null,
                    message: String(error?.message ?? error),
                },
            };
        }
        process.stdout.write(JSON.stringify(answer) + "\n");
    }
}
