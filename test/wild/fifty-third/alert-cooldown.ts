import axios from 'axios';
import pRetry, { AbortError } from 'p-retry';
import pino from 'pino';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

export type Severity = 'info' | 'warning' | 'critical';

export interface DeviceAlert {
  deviceId: string;
  rule: string;
  severity: Severity;
  value: number;
  observedAt: string;
}

interface NotifierOptions {
  pagerUrl: string;
  routingKey: string;
  cooldownSeconds?: Partial<Record<Severity, number>>;
}

const DEFAULT_COOLDOWN: Record<Severity, number> = {
  info: 6 * 3600,
  warning: 3600,
  critical: 900,
};

const log = pino({ name: 'alert-notifier' });

/**
 * Telemetry arrives on all ingest nodes and the same rule fires on many of them at once.
 * One page goes out per device, rule, severity and cooldown window; the rest are dropped. A page that
 * could not be delivered is not tried again before the window is over.
 */
export function createAlertNotifier(redis: Client, options: NotifierOptions) {
  const cooldown = { ...DEFAULT_COOLDOWN, ...options.cooldownSeconds };

  async function page(alert: DeviceAlert): Promise<void> {
    await pRetry(
      async () => {
        const res = await axios.post(
          options.pagerUrl,
          {
            routing_key: options.routingKey,
            event_action: 'trigger',
            dedup_key: `${alert.deviceId}/${alert.rule}`,
            payload: {
              summary: `${alert.rule} on ${alert.deviceId}: ${alert.value}`,
              severity: alert.severity,
              timestamp: alert.observedAt,
            },
          },
          { timeout: 5_000, validateStatus: () => true },
        );
        if (res.status >= 500 || res.status === 429) throw new Error(`pager answered ${res.status}`);
        if (res.status >= 400) throw new AbortError(`pager refused: ${res.status}`);
      },
      { retries: 4, minTimeout: 500 },
    );
  }

  return async function notify(alert: DeviceAlert): Promise<'sent' | 'suppressed' | 'failed'> {
    const reply = await redis.set(`alert:mute:${alert.deviceId}:${alert.rule}:${alert.severity}`, '1', {
      condition: 'NX',
      expiration: { type: 'EX', value: cooldown[alert.severity] },
    });
    if (reply !== 'OK') return 'suppressed';

    try {
      await page(alert);
      return 'sent';
    } catch (err) {
      log.error({ err, alert }, 'page not delivered');
      return 'failed';
    }
  };
}
