/*
 * An editor made of the official TypeScript SDK, which checks everything that an agent sends.
 *
 * Owns one run of an agent: its updates by phases, what it asks permission for, and `problems`, everything that the SDK
 * complained of or dropped. Knows neither a version of the protocol nor what is done in a session.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { isDeepStrictEqual } from "node:util";

export const problems = [];
console.error = (...said) => problems.push(said.map((part) => JSON.stringify(part)).join(" "));

/** One run of the agent, and what this editor does for it. */
export class Editor {
  phases = {};
  permissions = [];
  labels = [];
  #sdk;
  #resultOf;
  #dropped;
  #updates = [];
  #sent = [];
  #waiting = new Set();

  /**
   * `sdk` is the SDK of one version, `resultOf` the schema of each method's result, and `dropped` matches the places of
   * what the SDK does not know and may drop without a word.
   */
  constructor(command, sdk, resultOf, dropped = undefined) {
    this.#sdk = sdk;
    this.#resultOf = resultOf;
    this.#dropped = dropped;
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    this.exited = once(this.process, "exit");
  }

  /** Begin to collect the updates under another name. */
  phase(name) {
    this.#updates = this.phases[name] = [];
  }

  /** Wait for an update of this phase: of a kind, or one that a function wants. */
  seen(wanted) {
    const fits = typeof wanted === "string" ? (update) => update.sessionUpdate === wanted : wanted;
    return new Promise((resolve) => {
      const look = () => {
        const found = this.#updates.find(fits);
        if (found) (this.#waiting.delete(look), resolve(found));
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** Add to the client what else this editor answers. */
  answering(editor) {
    return editor;
  }

  /** Run `work` with a function that sends requests and checks their results, and with the connection. */
  async talk(work) {
    const { client, methods, ndJsonStream } = this.#sdk;
    const wire = ndJsonStream(Writable.toWeb(this.process.stdin), Readable.toWeb(this.process.stdout));
    const noting = new TransformStream({
      transform: (message, controller) => {
        if (message.method === methods.client.session.update) this.#sent.push(message.params);
        if (message.result === null) problems.push(`the result of request ${message.id} is null`);
        this.labels.push(message.params?.update?.sessionUpdate ?? message.method ?? "response");
        controller.enqueue(message);
      },
    });
    const editor = client({ name: "acp-agent-test" })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.#judge("session/update", this.#sent.shift(), params);
        this.#updates.push(params.update);
        for (const look of [...this.#waiting]) look();
      })
      .onRequest(methods.client.session.requestPermission, ({ params }) => {
        this.permissions.push(params);
        const { optionId } = params.options.find((option) => option.kind === "allow_once");
        return { outcome: { outcome: "selected", optionId } };
      });
    const streams = { writable: wire.writable, readable: wire.readable.pipeThrough(noting) };
    await this.answering(editor).connectWith(streams, (agent) =>
      work(async (method, params, options) => {
        const result = await agent.request(method, params, options);
        this.#judge(`result of ${method}`, result, this.#resultOf[method].parse(result));
        return result;
      }, agent),
    );
    if (this.#sent.length) problems.push(`refused updates: ${JSON.stringify(this.#sent)}`);
  }

  /** What the agent sent must all be in what the SDK understood: its schema drops what it does not know. */
  #judge(what, sent, understood) {
    if (Array.isArray(sent) && Array.isArray(understood) && sent.length === understood.length) {
      sent.forEach((value, index) => this.#judge(`${what}[${index}]`, value, understood[index]));
    } else if (sent && typeof sent === "object" && understood && typeof understood === "object") {
      for (const [key, value] of Object.entries(sent)) this.#judge(`${what}.${key}`, value, understood[key]);
    } else if (!isDeepStrictEqual(sent, understood) && !(this.#dropped?.test(what) && understood === undefined)) {
      problems.push(`${what}: sent ${JSON.stringify(sent)}, understood ${JSON.stringify(understood)}`);
    }
  }
}
