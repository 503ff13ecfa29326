// npm @tursodatabase/api: calls any method of the client by its path, say "databases.create".
import { createClient } from "@tursodatabase/api";
import { drive } from "./driver.mjs";

let client;

await drive({
    open({ url, token, organization }) {
        client = createClient({ org: organization, token, baseUrl: `${url}/v1/` });
    },
    async ask({ path, args }) {
        const [part, method] = path.split(".");
        return (await client[part][method](...args)) ?? null;
    },
});
