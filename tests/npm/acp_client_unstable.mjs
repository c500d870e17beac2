/*
 * An editor made of the official TypeScript SDK with what is unstable in the protocol, which it checks as well.
 *
 *     node acp_client_unstable.mjs VERSION DIRECTORY AGENT [ARGUMENT...]
 *
 * Speaks version 1 or 2. Is an MCP server itself, with one tool that says how far it is, and a second one later; forks the
 * session, names it, archives it, asks for its status and as whom the agent asks its models. Prints what it saw as one line
 * of JSON: the results, the updates, what its server got, and `problems`: everything that the SDK complained of or dropped.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { isDeepStrictEqual } from "node:util";

const [version, directory, ...command] = process.argv.slice(2);
const second = version === "2";
const { client, methods, ndJsonStream, McpOverAcpProvider } = await import(
  second ? "@agentclientprotocol/sdk/experimental/v2/unstable" : "@agentclientprotocol/sdk/unstable"
);
// The SDK checks notifications and requests with these, but not every result, and does not export them.
const schema = await import(
  `./node_modules/@agentclientprotocol/sdk/dist/v${version}/unstable/schema/zod.gen.js`
);

const { session: sessionMethods, auth, providers } = methods.agent;
const resultOf = {
  [methods.agent.initialize]: schema.zInitializeResponse,
  [auth.status]: schema.zAuthStatusResponse,
  [providers.list]: schema.zListProvidersResponse,
  [providers.disable]: schema.zDisableProviderResponse,
  [sessionMethods.new]: schema.zNewSessionResponse,
  [sessionMethods.prompt]: schema.zPromptResponse,
  [sessionMethods.fork]: schema.zForkSessionResponse,
  [sessionMethods.setTitle]: schema.zSetSessionTitleResponse,
  [sessionMethods.status]: schema.zSessionStatusResponse,
  [sessionMethods.archive]: schema.zArchiveSessionResponse,
  [sessionMethods.unarchive]: schema.zUnarchiveSessionResponse,
  [sessionMethods.list]: schema.zListSessionsResponse,
  [sessionMethods.close]: schema.zCloseSessionResponse,
};
const problems = [];
console.error = (...said) => problems.push(said.map((part) => JSON.stringify(part)).join(" "));

/** What the agent sent must all be in what the SDK understood: its schema drops what it does not know. */
function judge(what, sent, understood) {
  if (Array.isArray(sent) && Array.isArray(understood) && sent.length === understood.length) {
    sent.forEach((value, index) => judge(`${what}[${index}]`, value, understood[index]));
  } else if (sent && typeof sent === "object" && understood && typeof understood === "object") {
    for (const [key, value] of Object.entries(sent)) judge(`${what}.${key}`, value, understood[key]);
  } else if (!isDeepStrictEqual(sent, understood)) {
    problems.push(`${what}: sent ${JSON.stringify(sent)}, understood ${JSON.stringify(understood)}`);
  }
}

const facts = { problems, got: [], updates: [], statuses: [], permissions: 0 };
const sent = [];
const waiting = new Set();
const look = () => [...waiting].forEach((each) => each());

/** Wait until `found` says so; it is asked after everything that the agent sends. */
function until(found) {
  return new Promise((resolve) => {
    const again = () => found() && (waiting.delete(again), resolve());
    waiting.add(again);
    again();
  });
}

const tool = (name) => ({ name, description: `Does ${name}.`, inputSchema: { type: "object" } });
const offered = [tool("look")];
let listener;

/** The editor as an MCP server. */
async function answer(context) {
  facts.got.push(context.method);
  look();
  const fresh = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
  switch (context.method) {
    case "server/discover":
      return { result: { ...fresh, supportedVersions: [context.protocolVersion], capabilities: { tools: { listChanged: true } } } };
    case "tools/list":
      return { result: { ...fresh, tools: [...offered] } };
    case "tools/call": {
      const { progressToken } = context.params._meta;
      await context.notify("notifications/progress", { progressToken, progress: 1, total: 2, message: "Looking" });
      const { name } = context.params;
      return { result: { resultType: "complete", content: [{ type: "text", text: `${name}: a lamp` }], isError: false } };
    }
    case "subscriptions/listen": {
      const _meta = { "io.modelcontextprotocol/subscriptionId": context.requestId };
      const { notifications } = context.params;
      await context.notify("notifications/subscriptions/acknowledged", { notifications, _meta });
      listener = () => context.notify("notifications/tools/list_changed", { _meta });
      look();
      await new Promise((_, reject) => context.signal.addEventListener("abort", () => reject(context.signal.reason)));
      return { result: {} };
    }
    default:
      return { error: { code: -32601, message: `Method not found: ${context.method}` } };
  }
}

const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const exited = once(agent, "exit");
const mcp = new McpOverAcpProvider();
const wire = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const noting = new TransformStream({
  transform: (message, controller) => {
    if (message.method === methods.client.session.update) sent.push(message.params);
    controller.enqueue(message);
  },
});
const info = { name: "test", version: "1" };
const greeting = second
  ? { protocolVersion: 2, info, capabilities: {} }
  : { protocolVersion: 1, clientInfo: info, clientCapabilities: { plan: {} } };

await client({ name: "acp-agent-test" })
  .onNotification(methods.client.session.update, ({ params }) => {
    judge("session/update", sent.shift(), params);
    facts.updates.push({ ...params.update, of: params.sessionId });
    look();
  })
  .onNotification(methods.client.auth.statusUpdate, ({ params }) => {
    facts.statuses.push(params.state);
    look();
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    facts.permissions += 1;
    return { outcome: { outcome: "selected", optionId: params.options.find(({ kind }) => kind === "allow_once").optionId } };
  })
  .onRequest(methods.client.mcp.message, mcp.handleRequest)
  .connectWith({ writable: wire.writable, readable: wire.readable.pipeThrough(noting) }, async (context) => {
    const ask = async (method, params) => {
      const result = await context.request(method, params);
      judge(`result of ${method}`, result, resultOf[method].parse(result));
      return result;
    };
    const seen = (sessionId, kind) => until(() => facts.updates.some((each) => each.of === sessionId && each.sessionUpdate === kind));
    const say = async (sessionId, text) => {
      const begun = facts.updates.length;
      const result = await ask(sessionMethods.prompt, { sessionId, prompt: [{ type: "text", text }] });
      const over = (each) => each.of === sessionId && each.state === "idle";
      if (second) await until(() => facts.updates.slice(begun).some(over));
      return second ? facts.updates.slice(begun).find(over).stopReason : result.stopReason;
    };

    facts.initialized = await ask(methods.agent.initialize, greeting);
    const server = mcp.registerServer(context, { name: "desk", handler: answer });
    const { sessionId } = await ask(sessionMethods.new, { cwd: directory, mcpServers: [server.declaration] });
    await until(() => listener);
    facts.first = await say(sessionId, "Look");
    offered.push(tool("clean"));
    const lists = facts.got.filter((method) => method === "tools/list").length;
    await listener();
    await until(() => facts.got.filter((method) => method === "tools/list").length > lists);
    facts.planned = await say(sessionId, "Plan it");

    facts.standing = await ask(auth.status, {});
    const forked = await ask(sessionMethods.fork, { sessionId, cwd: directory, mcpServers: [server.declaration] });
    await seen(forked.sessionId, "available_commands_update");
    facts.cleaned = await say(forked.sessionId, "Clean");
    facts.titled = await ask(sessionMethods.setTitle, { sessionId: forked.sessionId, title: "The fork" });
    facts.open = await ask(sessionMethods.status, { sessionId });
    await ask(sessionMethods.archive, { sessionId });
    facts.saved = await ask(sessionMethods.status, { sessionId });
    facts.listed = await ask(sessionMethods.list, {});
    facts.archived = await ask(sessionMethods.list, { archived: "only" });
    await ask(sessionMethods.unarchive, { sessionId });
    facts.providers = await ask(providers.list, {});
    await ask(providers.disable, { providerId: "openai" });
    await until(() => facts.statuses.length);
    await ask(sessionMethods.close, { sessionId: forked.sessionId });
    await server.dispose();
  });
if (sent.length) problems.push(`refused updates: ${JSON.stringify(sent)}`);
agent.stdin.end();
[facts.exitCode] = await exited;
process.stdout.write(`${JSON.stringify(facts)}\n`);
