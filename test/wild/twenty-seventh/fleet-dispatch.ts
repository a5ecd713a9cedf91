import type { Redis } from 'ioredis';
import Redlock from 'redlock5';

export interface Ride { id: string; pickup: [number, number] }
export interface Driver { id: string; position: [number, number] }

export interface DispatchGateway {
  openRides(region: string): Promise<Ride[]>;
  freeDrivers(region: string): Promise<Driver[]>;
  assign(rideId: string, driverId: string): Promise<void>;
}

export interface Solver {
  match(rides: Ride[], drivers: Driver[]): Promise<Array<{ ride: string; driver: string }>>;
}

interface Log {
  debug(msg: string, ...rest: unknown[]): void;
  info(msg: string, ...rest: unknown[]): void;
}

const LEASE = 15_000;
const HEARTBEAT = 5_000;

export class Dispatcher {
  private readonly redlock: Redlock;

  constructor(
    clients: Redis[],
    private readonly gateway: DispatchGateway,
    private readonly solver: Solver,
    private readonly log: Log,
  ) {
    // no waiting: the next round is a minute away anyway
    this.redlock = new Redlock(clients, { retryCount: 0 });
    this.redlock.on('error', (err: unknown) => this.log.debug('redlock', err));
  }

  /** Called every minute by the scheduler of each instance. */
  async round(region: string): Promise<number> {
    let lock;
    try {
      lock = await this.redlock.acquire([`dispatch:${region}`], LEASE);
    } catch {
      this.log.debug(`region ${region} is dispatched by another instance`);
      return 0;
    }

    // the solver needs 30 to 90 seconds for the big cities
    const held = lock;
    const heartbeat = setInterval(() => {
      held.extend(LEASE).catch((err: unknown) => {
        this.log.debug(`extend ${region} failed, trying again in ${HEARTBEAT} ms`, err);
      });
    }, HEARTBEAT);

    try {
      const [rides, drivers] = await Promise.all([
        this.gateway.openRides(region),
        this.gateway.freeDrivers(region),
      ]);
      const plan = await this.solver.match(rides, drivers);
      for (const { ride, driver } of plan) {
        await this.gateway.assign(ride, driver);
      }
      this.log.info(`region ${region}: ${plan.length} rides assigned`);
      return plan.length;
    } finally {
      clearInterval(heartbeat);
      await held.release().catch((err: unknown) => this.log.debug(`release ${region}`, err));
    }
  }
}
