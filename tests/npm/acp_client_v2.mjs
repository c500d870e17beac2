/*
 * An editor of version 2, made of the official TypeScript SDK's experimental client, which checks all that an agent sends.
 *
 *     node acp_client_v2.mjs DIRECTORY FILE AGENT [ARGUMENT...]
 *
 * Starts the agent in its own environment, works through a session in the directory, kills the agent and goes on with a
 * second one. Prints what it saw as one line of JSON: the results, the updates of each phase, what it was asked, and
 * `problems`: everything that the SDK complained of or dropped. Knows nothing of models.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { isDeepStrictEqual } from "node:util";

import { client, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk/experimental/v2";
// The SDK checks notifications and requests with these, but not every result, and does not export them.
import * as schema from "./node_modules/@agentclientprotocol/sdk/dist/v2/schema/zod.gen.js";

const [directory, file, ...command] = process.argv.slice(2);
const { session: sessionMethods, auth } = methods.agent;
const resultOf = {
  [methods.agent.initialize]: schema.zInitializeResponse,
  [auth.login]: schema.zLoginAuthResponse,
  [auth.logout]: schema.zLogoutAuthResponse,
  [sessionMethods.resume]: schema.zResumeSessionResponse,
  [sessionMethods.list]: schema.zListSessionsResponse,
  [sessionMethods.close]: schema.zCloseSessionResponse,
  [sessionMethods.delete]: schema.zDeleteSessionResponse,
  [sessionMethods.prompt]: schema.zPromptResponse,
  [sessionMethods.setConfigOption]: schema.zSetSessionConfigOptionResponse,
};
const problems = [];
console.error = (...said) => problems.push(said.map((part) => JSON.stringify(part)).join(" "));

/** What is of the unstable schema alone, which the SDK's client does not know; it has to be dropped without a word. */
const UNSTABLE =
  /\.(session\.(fork|title|archive|status|mcp\.acp)|capabilities\.providers|auth\.status|sessions\[\d+\]\.archived)$/;

/** What the agent sent must all be in what the SDK understood: its schema drops what it does not know. */
function judge(what, sent, understood) {
  if (Array.isArray(sent) && Array.isArray(understood) && sent.length === understood.length) {
    sent.forEach((value, index) => judge(`${what}[${index}]`, value, understood[index]));
  } else if (sent && typeof sent === "object" && understood && typeof understood === "object") {
    for (const [key, value] of Object.entries(sent)) judge(`${what}.${key}`, value, understood[key]);
  } else if (!isDeepStrictEqual(sent, understood) && !(UNSTABLE.test(what) && understood === undefined)) {
    problems.push(`${what}: sent ${JSON.stringify(sent)}, understood ${JSON.stringify(understood)}`);
  }
}

/** One run of the agent. */
class Editor {
  phases = {};
  permissions = [];
  labels = [];
  #updates = [];
  #sent = [];
  #waiting = new Set();

  constructor() {
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    this.exited = once(this.process, "exit");
  }

  /** Begin to collect the updates under another name. */
  phase(name) {
    this.#updates = this.phases[name] = [];
  }

  /** Wait for an update of this phase. */
  seen(wanted) {
    return new Promise((resolve) => {
      const look = () => {
        const found = this.#updates.find(wanted);
        if (found) (this.#waiting.delete(look), resolve(found));
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** Wait until the session does not work any more. */
  idle() {
    return this.seen((update) => update.sessionUpdate === "state_update" && update.state === "idle");
  }

  /** Run `work` with a function that sends requests and checks their results, and with the connection. */
  async talk(work) {
    const wire = ndJsonStream(Writable.toWeb(this.process.stdin), Readable.toWeb(this.process.stdout));
    const noting = new TransformStream({
      transform: (message, controller) => {
        if (message.method === methods.client.session.update) this.#sent.push(message.params);
        if (message.result === null) problems.push(`the result of request ${message.id} is null`);
        this.labels.push(message.params?.update?.sessionUpdate ?? message.method ?? "response");
        controller.enqueue(message);
      },
    });
    await client({ name: "acp-agent-test" })
      .onNotification(methods.client.session.update, ({ params }) => {
        judge("session/update", this.#sent.shift(), params);
        this.#updates.push(params.update);
        for (const look of [...this.#waiting]) look();
      })
      .onRequest(methods.client.session.requestPermission, ({ params }) => {
        this.permissions.push(params);
        const { optionId } = params.options.find((option) => option.kind === "allow_once");
        return { outcome: { outcome: "selected", optionId } };
      })
      .connectWith({ writable: wire.writable, readable: wire.readable.pipeThrough(noting) }, (agent) =>
        work(async (method, params, options) => {
          const result = await agent.request(method, params, options);
          judge(`result of ${method}`, result, resultOf[method].parse(result));
          return result;
        }, agent),
      );
    if (this.#sent.length) problems.push(`refused updates: ${JSON.stringify(this.#sent)}`);
  }
}

const facts = { problems };
const greeting = { protocolVersion: 2, info: { name: "test", version: "1" }, capabilities: {} };
const code = (error) => (error instanceof RequestError ? { code: error.code } : { error: `${error}` });
let sessionId;
const say = (text) => ({ sessionId, prompt: [{ type: "text", text }] });

const first = new Editor();
first.phase("opening");
await first.talk(async (ask, agent) => {
  facts.initialized = await ask(methods.agent.initialize, greeting);
  const [{ methodId }] = facts.initialized.authMethods;
  await ask(auth.login, { methodId });
  // The key is in the environment, where nobody can log out: the answer says so.
  facts.loggedOut = await ask(auth.logout, {}).then(() => "", (error) => error.message);
  const session = await agent.buildSession(directory).start();
  ({ sessionId } = session);
  facts.opened = session.newSessionResponse;
  await first.seen((update) => update.sessionUpdate === "available_commands_update");

  first.phase("edit");
  facts.edit = await session.prompt(`Repair ${file}`);
  facts.edited = await session.readTextUntilIdle();

  first.phase("command");
  await ask(sessionMethods.prompt, say("Wait"));
  const { terminalId } = await first.seen((update) => update.sessionUpdate === "terminal_output_chunk");
  facts.cancellable = session.canCancelTerminal(terminalId);
  await session.cancelTerminal(terminalId);
  await first.idle();
  facts.stillCancellable = session.canCancelTerminal(terminalId);

  first.phase("cancel");
  facts.taken = await ask(sessionMethods.prompt, say("Think about it"));
  const waiting = ask(sessionMethods.prompt, say("And then?")).catch(code);
  const withdrawal = new AbortController();
  const withdrawn = ask(sessionMethods.prompt, say("Oh"), { cancellationSignal: withdrawal.signal }).catch(code);
  await first.seen((update) => update.sessionUpdate === "agent_message_chunk");
  withdrawal.abort();
  facts.withdrawn = await withdrawn;
  await agent.notify(sessionMethods.cancel, { sessionId });
  facts.waiting = await waiting;
  facts.cancel = await first.idle();

  first.phase("settings");
  facts.option = await session.setConfigOption({ configId: "mode", type: "id", value: "plan" });

  first.phase("compact");
  await ask(sessionMethods.prompt, say("/compact keep the prices"));
  facts.compact = await first.idle();
  session.dispose();
  first.process.kill("SIGKILL");
});
await first.exited;

const second = new Editor();
await second.talk(async (ask) => {
  await ask(methods.agent.initialize, greeting);
  facts.listed = await ask(sessionMethods.list, { cwd: directory });

  second.phase("replay");
  facts.resumed = await ask(sessionMethods.resume, { sessionId, cwd: directory, replayFrom: { type: "start" } });
  facts.cursor = await ask(sessionMethods.resume, { sessionId, cwd: directory, replayFrom: { type: "_mine" } }).catch(code);

  second.phase("after replay");
  await ask(sessionMethods.prompt, say("What was done?"));
  await second.idle();
  await ask(sessionMethods.close, { sessionId });

  second.phase("resume");
  await ask(sessionMethods.resume, { sessionId, cwd: directory });
  await second.seen((update) => update.sessionUpdate === "usage_update");
  second.phase("after resume");
  await ask(sessionMethods.prompt, say("And now?"));
  await second.idle();
  await ask(sessionMethods.close, { sessionId });
  await ask(sessionMethods.close, { sessionId });
  await ask(sessionMethods.delete, { sessionId });
  facts.left = await ask(sessionMethods.list, {});
  facts.resumedAfterDelete = await ask(sessionMethods.resume, { sessionId, cwd: directory }).catch(code);
});
second.process.stdin.end();
[facts.exitCode] = await second.exited;

facts.permissions = first.permissions;
facts.phases = { ...first.phases, ...second.phases };
facts.labels = first.labels;
process.stdout.write(`${JSON.stringify(facts)}\n`);
