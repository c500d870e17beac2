/*
 * An editor made of the official TypeScript SDK, which checks everything that an agent sends.
 *
 *     node acp_client.mjs DIRECTORY FILE AGENT [ARGUMENT...]
 *
 * Starts the agent in its own environment, works through a session in the directory, kills the agent and goes on with a
 * second one. Prints what it saw as one line of JSON: the results, the updates of each phase, what it was asked to do, and
 * `problems`: everything that the SDK complained of or dropped. Knows nothing of models.
 */

import { readFile, writeFile } from "node:fs/promises";

import { client, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";
// The SDK checks notifications and requests with these, but no results, and does not export them.
import * as schema from "./node_modules/@agentclientprotocol/sdk/dist/v1/schema/zod.gen.js";
import { Editor, problems } from "./acp_editor.mjs";

const [directory, file, ...command] = process.argv.slice(2);
const { session: sessionMethods } = methods.agent;
const resultOf = {
  [methods.agent.initialize]: schema.zInitializeResponse,
  [sessionMethods.new]: schema.zNewSessionResponse,
  [sessionMethods.load]: schema.zLoadSessionResponse,
  [sessionMethods.resume]: schema.zResumeSessionResponse,
  [sessionMethods.list]: schema.zListSessionsResponse,
  [sessionMethods.close]: schema.zCloseSessionResponse,
  [sessionMethods.delete]: schema.zDeleteSessionResponse,
  [sessionMethods.prompt]: schema.zPromptResponse,
  [sessionMethods.setMode]: schema.zSetSessionModeResponse,
  [sessionMethods.setConfigOption]: schema.zSetSessionConfigOptionResponse,
};

/** What is of the unstable schema alone, which the SDK's client does not know; it has to be dropped without a word. */
const UNSTABLE =
  /\.(sessionCapabilities\.(fork|title|archive|status)|agentCapabilities\.providers|mcpCapabilities\.acp|auth\.status|sessions\[\d+\]\.archived)$/;

/** An editor that lends its files and shows forms. */
class LendingEditor extends Editor {
  forms = [];
  reads = [];
  writes = [];

  constructor() {
    super(command, { client, methods, ndJsonStream }, resultOf, UNSTABLE);
  }

  answering(editor) {
    return editor
      .onRequest(methods.client.elicitation.create, ({ params }) => {
        this.forms.push(params);
        const [name, field] = Object.entries(params.requestedSchema.properties)[0];
        return { action: "accept", content: { [name]: field.oneOf[1].const } };
      })
      .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
        this.reads.push(params.path);
        return { content: await readFile(params.path, "utf8") };
      })
      .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
        this.writes.push(params.path);
        await writeFile(params.path, params.content);
        return {};
      });
  }
}

const facts = { problems };
const clientCapabilities = {
  fs: { readTextFile: true, writeTextFile: true },
  session: { compaction: {}, notices: {}, configOptions: { boolean: {} } },
  elicitation: { form: {} },
};
const greeting = { protocolVersion: 1, clientInfo: { name: "test", version: "1" }, clientCapabilities };
const here = { cwd: directory, mcpServers: [] };
let sessionId;
const say = (text) => ({ sessionId, prompt: [{ type: "text", text }] });

const first = new LendingEditor();
first.phase("opening");
await first.talk(async (ask, agent) => {
  facts.initialized = await ask(methods.agent.initialize, greeting);
  facts.opened = await ask(sessionMethods.new, here);
  sessionId = facts.opened.sessionId;
  await first.seen("available_commands_update");

  first.phase("edit");
  facts.edit = await ask(sessionMethods.prompt, say(`Repair ${file}`));

  first.phase("cancel");
  const cancelled = ask(sessionMethods.prompt, say("Think about it"));
  await first.seen("agent_message_chunk");
  await agent.notify(sessionMethods.cancel, { sessionId });
  facts.cancel = await cancelled;

  first.phase("withdraw");
  const withdrawal = new AbortController();
  const withdrawn = ask(sessionMethods.prompt, say("Think again"), { cancellationSignal: withdrawal.signal });
  const outcome = withdrawn.catch((error) => (error instanceof RequestError ? { code: error.code } : { error: `${error}` }));
  await first.seen("agent_message_chunk");
  withdrawal.abort();
  facts.withdraw = await outcome;

  first.phase("settings");
  facts.mode = await ask(sessionMethods.setMode, { sessionId, modeId: "accept-edits" });
  facts.option = await ask(sessionMethods.setConfigOption, { sessionId, configId: "mode", value: "plan" });

  first.phase("compact");
  facts.compact = await ask(sessionMethods.prompt, say("/compact keep the prices"));

  first.process.kill("SIGKILL");
});
await first.exited;

const second = new LendingEditor();
await second.talk(async (ask) => {
  await ask(methods.agent.initialize, greeting);
  facts.listed = await ask(sessionMethods.list, { cwd: directory });

  second.phase("load");
  facts.loaded = await ask(sessionMethods.load, { sessionId, ...here });
  await second.seen("usage_update");

  second.phase("after load");
  await ask(sessionMethods.prompt, say("What was done?"));
  await ask(sessionMethods.close, { sessionId });

  second.phase("resume");
  facts.resumed = await ask(sessionMethods.resume, { sessionId, ...here });
  await second.seen("usage_update");

  second.phase("after resume");
  await ask(sessionMethods.prompt, say("And now?"));
  await ask(sessionMethods.close, { sessionId });
  await ask(sessionMethods.delete, { sessionId });
  facts.left = await ask(sessionMethods.list, {});
  facts.loadedAfterDelete = await ask(sessionMethods.load, { sessionId, ...here }).catch((error) => error.code);
});
second.process.stdin.end();
[facts.exitCode] = await second.exited;

const { permissions, forms, reads, writes } = first;
Object.assign(facts, { permissions, forms, reads, writes });
facts.phases = { ...first.phases, ...second.phases };
facts.labels = first.labels;
process.stdout.write(`${JSON.stringify(facts)}\n`);
