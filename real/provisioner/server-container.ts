import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { ContainerRuntimeClient, StartedTestContainer } from 'testcontainers';
import { probe } from './clients.js';
import { freePort } from './free-port.js';
import { type Persistence, ProvisionError, type RestartOptions } from './types.js';

const REDIS_PORT = 6379;
const START_MS = 20_000;
const PROBE_MS = 1000;
const PORT_TRIES = 5;

type Container = ReturnType<ContainerRuntimeClient['container']['getById']>;

/** A Docker engine that answers, and the image on it that nodes are made of. */
export interface Engine {
  readonly testcontainers: typeof import('testcontainers');
  readonly client: ContainerRuntimeClient;
  readonly image: string;
  /** Where published ports are reached: 127.0.0.1, unless the engine is on another machine. */
  readonly host: string;
}

/** One Redis server in a container of our own, published on one port for as long as it exists. */
export class ServerContainer {
  readonly name: string;
  readonly #engine: Engine;
  readonly #persistence: Persistence;
  #port = 0;
  #id: string | undefined;

  constructor(name: string, engine: Engine, persistence: Persistence) {
    this.name = name;
    this.#engine = engine;
    this.#persistence = persistence;
  }

  get url(): string {
    return `redis://${this.#engine.host}:${this.#port}`;
  }

  /** The engine's name for the container, if there is one. */
  get id(): string | undefined {
    return this.#id;
  }

  /** The first start, on a free port. Somebody else may take it in between, then on another. */
  async start(): Promise<void> {
    for (let tries = 1; ; tries++) {
      this.#port = await freePort();
      try {
        await this.#create();
        return;
      } catch (error) {
        if (tries === PORT_TRIES || !/port is already allocated|address already in use/.test(reasonOf(error))) {
          throw error;
        }
      }
    }
  }

  async kill(): Promise<void> {
    const { container, running } = await this.#look();
    if (!running) return;
    await container.kill({ signal: 'SIGKILL' });
    await container.wait();
  }

  async pause(): Promise<void> {
    const { container, running, paused } = await this.#look();
    if (!running) throw this.#notRunning();
    if (!paused) await container.pause();
  }

  async resume(): Promise<void> {
    const { container, running, paused } = await this.#look();
    if (!running) throw this.#notRunning();
    if (paused) await container.unpause();
  }

  async restart({ keepData }: RestartOptions): Promise<void> {
    if (keepData && this.#persistence === 'none') await this.#save();
    await this.kill();
    if (!keepData) {
      await this.remove();
      return this.#create();
    }
    const { container } = await this.#look();
    await container.start();
    await this.#served();
  }

  sync(): Promise<void> {
    return this.#cannot();
  }

  cutPower(): Promise<void> {
    return this.#cannot();
  }

  setClock(): Promise<void> {
    return this.#cannot();
  }

  /** Ends and removes the container with what it wrote. */
  async remove(): Promise<void> {
    const id = this.#id;
    this.#id = undefined;
    if (id === undefined) return;
    try {
      await this.#engine.client.container.getById(id).remove({ force: true, v: true });
    } catch (error) {
      // Somebody else, such as the reaper of testcontainers, may have removed it or be at it.
      if (!/no such container|already in progress/i.test(reasonOf(error))) throw error;
    }
  }

  async #create(): Promise<void> {
    try {
      await this.#launch();
      await this.#served();
    } catch (error) {
      await this.remove();
      const { image } = this.#engine;
      throw new ProvisionError(`${this.name}: no container of ${image} started (${reasonOf(error)}).`, {
        cause: error,
      });
    }
  }

  #launch(): Promise<StartedTestContainer> {
    const { testcontainers, image, host } = this.#engine;
    // A port that the engine chose would be another one after a kill and start, and clients would not find it.
    const published = { container: REDIS_PORT, host: this.#port };
    const onCreated = (id: string) => {
      this.#id = id;
    };
    class RedisContainer extends testcontainers.GenericContainer {
      constructor() {
        super(image);
        this.withExposedPorts(published);
        if (host !== '127.0.0.1') return;
        // By itself, testcontainers publishes ports to every network that the machine is in.
        this.hostConfig.PortBindings = {
          [`${REDIS_PORT}/tcp`]: [{ HostIp: host, HostPort: String(published.host) }],
        };
      }

      protected override async containerCreated(id: string): Promise<void> {
        onCreated(id);
      }
    }
    return new RedisContainer()
      .withCommand(['redis-server', ...this.#arguments()])
      .withWaitStrategy(testcontainers.Wait.forLogMessage('Ready to accept connections'))
      .withStartupTimeout(START_MS)
      .start();
  }

  #arguments(): string[] {
    const file = this.#persistence === 'none' ? ['no'] : ['yes', '--appendfsync', this.#persistence];
    return [
      ...['--port', String(REDIS_PORT), '--bind', '0.0.0.0', '--protected-mode', 'no'],
      ...['--save', '', '--daemonize', 'no', '--appendonly', ...file],
    ];
  }

  /** Resolves when the server answers at its URL, which is a little after it says that it is ready. */
  async #served(): Promise<void> {
    const until = Date.now() + START_MS;
    for (;;) {
      try {
        await probe(this.url, PROBE_MS);
        return;
      } catch (error) {
        if (Date.now() > until) throw error;
        await sleep(5);
      }
    }
  }

  async #save(): Promise<void> {
    const { running } = await this.#look();
    if (!running) throw new ProvisionError(`${this.name} was killed without persistence: it has no data to keep.`);
    await this.resume();
    const client = new Redis(this.url);
    try {
      await client.save();
    } finally {
      client.disconnect();
    }
  }

  async #look(): Promise<{ container: Container; running: boolean; paused: boolean }> {
    if (this.#id === undefined) throw this.#notRunning();
    const container = this.#engine.client.container.getById(this.#id);
    const { State: state } = await container.inspect();
    return { container, running: state.Running, paused: state.Paused };
  }

  async #cannot(): Promise<never> {
    throw new ProvisionError(`${this.name} is a container: only own processes have a disk and a clock to spoil.`);
  }

  #notRunning(): ProvisionError {
    return new ProvisionError(`${this.name} is not running.`);
  }
}

/** What went wrong, in one line that fits into brackets. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const [line = ''] = message.trim().split('\n');
  return line.replace(/^\(HTTP code \d+\) [^-]* - /, '').replace(/[.\s]+$/, '');
}
