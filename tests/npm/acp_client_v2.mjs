/*
 * An editor of version 2, made of the official TypeScript SDK's experimental client, which checks all that an agent sends.
 *
 *     node acp_client_v2.mjs DIRECTORY FILE AGENT [ARGUMENT...]
 *
 * Starts the agent in its own environment, works through a session in the directory, kills the agent and goes on with a
 * second one. Prints what it saw as one line of JSON: the results, the updates of each phase, what it was asked, and
 * `problems`: everything that the SDK complained of or dropped. Knows nothing of models.
 */

import { client, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk/experimental/v2";
// The SDK checks notifications and requests with these, but not every result, and does not export them.
import * as schema from "./node_modules/@agentclientprotocol/sdk/dist/v2/schema/zod.gen.js";
import { Editor, problems } from "./acp_editor.mjs";

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
/** What is of the unstable schema alone, which the SDK's client does not know; it has to be dropped without a word. */
const UNSTABLE =
  /\.(session\.(fork|title|archive|status|mcp\.acp)|capabilities\.providers|auth\.status|sessions\[\d+\]\.archived)$/;

class SecondEditor extends Editor {
  constructor() {
    super(command, { client, methods, ndJsonStream }, resultOf, UNSTABLE);
  }

  /** Wait until the session does not work any more. */
  idle() {
    return this.seen((update) => update.sessionUpdate === "state_update" && update.state === "idle");
  }
}

const facts = { problems };
const greeting = { protocolVersion: 2, info: { name: "test", version: "1" }, capabilities: {} };
const code = (error) => (error instanceof RequestError ? { code: error.code } : { error: `${error}` });
let sessionId;
const say = (text) => ({ sessionId, prompt: [{ type: "text", text }] });

const first = new SecondEditor();
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
  await first.seen("available_commands_update");

  first.phase("edit");
  facts.edit = await session.prompt(`Repair ${file}`);
  facts.edited = await session.readTextUntilIdle();

  first.phase("command");
  await ask(sessionMethods.prompt, say("Wait"));
  const { terminalId } = await first.seen("terminal_output_chunk");
  facts.cancellable = session.canCancelTerminal(terminalId);
  await session.cancelTerminal(terminalId);
  await first.idle();
  facts.stillCancellable = session.canCancelTerminal(terminalId);

  first.phase("cancel");
  facts.taken = await ask(sessionMethods.prompt, say("Think about it"));
  const waiting = ask(sessionMethods.prompt, say("And then?")).catch(code);
  const withdrawal = new AbortController();
  const withdrawn = ask(sessionMethods.prompt, say("Oh"), { cancellationSignal: withdrawal.signal }).catch(code);
  await first.seen("agent_message_chunk");
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

const second = new SecondEditor();
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
  await second.seen("usage_update");
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
