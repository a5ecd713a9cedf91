import { Inject, Injectable, Logger, Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { format, subDays } from 'date-fns';
import { UTCDate } from '@date-fns/utc';
import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { MailerService } from '../mailer/mailer.service';
import { OccupancyRepository } from './occupancy.repository';

export const REDIS = Symbol('REDIS');

@Injectable()
export class OccupancyReportService {
  private readonly logger = new Logger(OccupancyReportService.name);
  private readonly recipients: string[];

  constructor(
    @Inject(REDIS) private readonly redis: Redis,
    private readonly occupancy: OccupancyRepository,
    private readonly mailer: MailerService,
    config: ConfigService,
  ) {
    this.recipients = config.getOrThrow<string>('OCCUPANCY_RECIPIENTS').split(',');
  }

  /**
   * Every replica fires this at 02:15 UTC; the first to claim the night sends the mail.
   *
   * What the claim gives: at most one attempt per night. It is on purpose not released, neither on
   * success nor on failure, and outlives the night by far, so a replica with a slow clock or a slow
   * start finds it taken. It does NOT give "at least once": if the winner crashes there is no mail,
   * and the front office asks for one through POST /reports/occupancy. That is fine for a report.
   */
  @Cron('15 2 * * *', { name: 'occupancy-report', timeZone: 'UTC' })
  async nightly(): Promise<void> {
    const night = format(subDays(new UTCDate(), 1), 'yyyy-MM-dd');

    if (!(await this.claim(night))) return;

    try {
      const rows = await this.occupancy.byProperty(night);
      const sold = rows.reduce((sum, r) => sum + r.roomsSold, 0);
      const available = rows.reduce((sum, r) => sum + r.roomsAvailable, 0);
      await this.mailer.send({
        to: this.recipients,
        subject: `Occupancy ${night}: ${available ? Math.round((100 * sold) / available) : 0} %`,
        template: 'occupancy',
        context: { night, rows },
      });
      this.logger.log(`occupancy report for ${night} sent (${rows.length} properties)`);
    } catch (err) {
      this.logger.error(`occupancy report for ${night} failed, not repeated`, err as Error);
    }
  }

  private async claim(night: string): Promise<boolean> {
    const key = `cron:occupancy-report:${night}`;
    const claimant = `${hostname()}/${randomUUID()}`; // only for people who look at the key
    try {
      const reply = await this.redis.set(key, claimant, 'EX', 3 * 24 * 3600, 'NX');
      return reply === 'OK';
    } catch (err) {
      // No Redis, no report: better none than six.
      this.logger.warn(`cannot claim ${key}: ${(err as Error).message}`);
      return false;
    }
  }
}

@Module({
  imports: [ConfigModule, ScheduleModule.forRoot()],
  providers: [
    OccupancyReportService,
    OccupancyRepository,
    MailerService,
    {
      provide: REDIS,
      inject: [ConfigService],
      useFactory: (config: ConfigService) =>
        new Redis(config.getOrThrow<string>('REDIS_URL'), { maxRetriesPerRequest: 2 }),
    },
  ],
})
export class OccupancyReportModule {}
