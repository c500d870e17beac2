/*
 * An editor made of the official TypeScript SDK, for an agent that serves over WebSocket.
 *
 *     TOKEN=... node acp_client_remote.mjs URL DIRECTORY
 *
 * Works through a session in the directory, drops the connection and goes on over another one. Prints what it saw as one
 * line of JSON, with `problems`: everything that the SDK complained of. Knows nothing of models.
 */

import { client, methods } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";

const [url, directory] = process.argv.slice(2);
const { session: sessionMethods } = methods.agent;
const headers = process.env.TOKEN ? { Authorization: `Bearer ${process.env.TOKEN}` } : {};
const facts = { problems: [], permissions: [] };
for (const level of ["error", "warn"]) console[level] = (...said) => facts.problems.push(said.map(String).join(" "));

/** Node's own WebSocket takes headers, in another place than the SDK has them. */
class Socket extends WebSocket {
  constructor(address, protocols, options) {
    super(address, { protocols, headers: options?.headers });
  }
}

/** Talk over a connection, which is closed behind `work`. */
async function talk(work) {
  const updates = [];
  const waiting = new Set();
  const seen = (found) =>
    new Promise((resolve) => {
      const look = () => updates.some(found) && (waiting.delete(look), resolve());
      waiting.add(look);
      look();
    });
  await client({ name: "acp-agent-test" })
    .onNotification(methods.client.session.update, ({ params }) => {
      updates.push(params.update);
      for (const look of [...waiting]) look();
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      facts.permissions.push(params.toolCall.kind);
      const { optionId } = params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId } };
    })
    .connectWith(createWebSocketStream(url, { headers, WebSocket: Socket }), async (agent) => {
      const greeting = { protocolVersion: 1, clientInfo: { name: "test", version: "1" } };
      const ask = (method, params) => agent.request(method, params);
      facts.initialized = await ask(methods.agent.initialize, {
        ...greeting,
        clientCapabilities: { session: { compaction: {} } },
      });
      await work(ask, updates, seen, agent);
    });
}

const text = (updates) =>
  updates
    .filter((update) => update.sessionUpdate === "agent_message_chunk")
    .map((update) => update.content.text)
    .join("");
const here = { cwd: directory, mcpServers: [] };
let sessionId;
const say = (words) => ({ sessionId, prompt: [{ type: "text", text: words }] });

await talk(async (ask, updates, seen, agent) => {
  ({ sessionId } = await ask(sessionMethods.new, here));
  await seen((update) => update.sessionUpdate === "available_commands_update");
  facts.edit = await ask(sessionMethods.prompt, say("Change it"));
  facts.said = text(updates);
  const cancelled = ask(sessionMethods.prompt, say("Think"));
  await seen((update) => update.content?.text === "Well, ");
  await agent.notify(sessionMethods.cancel, { sessionId });
  facts.cancel = await cancelled;
  facts.compact = await ask(sessionMethods.prompt, say("/compact"));
  facts.compaction = updates.filter((update) => update.sessionUpdate === "compaction_update").at(-1).status;
});

await talk(async (ask, updates, seen) => {
  facts.listed = (await ask(sessionMethods.list, {})).sessions.map((listed) => listed.sessionId);
  await ask(sessionMethods.load, { sessionId, ...here });
  await seen((update) => update.sessionUpdate === "usage_update");
  facts.replayed = text(updates);
  facts.again = await ask(sessionMethods.prompt, say("What does it say?"));
  facts.more = text(updates).slice(facts.replayed.length);
  // An id that is mistaken is the request's failure alone.
  facts.mistaken = {};
  const wrong = { ...here, sessionId: "sess_mistaken", prompt: [] };
  for (const method of [sessionMethods.load, sessionMethods.resume, sessionMethods.prompt]) {
    facts.mistaken[method] = await ask(method, wrong).then(() => 0, (error) => error.code ?? String(error));
  }
  facts.after = await ask(sessionMethods.prompt, say("Still there?"));
});
facts.session = sessionId;
process.stdout.write(`${JSON.stringify(facts)}\n`);
