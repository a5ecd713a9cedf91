import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? '');
redis.on('error', () => {});

interface Request {
  readonly ip: string;
  readonly user?: { readonly id: string };
}

interface Response {
  status(code: number): Response;
  send(text: string): Response;
  on(event: 'finish', listener: () => void): Response;
}

/** Calls back where Redis has answered, and gives no promise. */
export function oneAtATime(req: Request, res: Response, next: (error?: Error) => void): void {
  const key = `lock:${req.user?.id ?? req.ip}`;
  redis.set(key, '1', 'EX', 10, 'NX', (error, reply) => {
    if (error) next(error);
    else if (reply === null || reply === undefined) res.status(429).send('too many requests');
    else {
      res.on('finish', () => void redis.del(key));
      next();
    }
  });
}
