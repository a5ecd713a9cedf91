import { ConflictException, Inject, Injectable, Logger, NotFoundException, ServiceUnavailableException } from '@nestjs/common';
import { HttpService } from '@nestjs/axios';
import { PrismaClient } from '@prisma/client';
import type Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { firstValueFrom } from 'rxjs';

const LOCK_MS = 40_000;
const LOCK_MARGIN_MS = 5_000;

export interface ApprovalResult {
  timesheetId: string;
  hours: number;
  payrollRef: string;
}

@Injectable()
export class TimesheetApprovalService {
  private readonly logger = new Logger(TimesheetApprovalService.name);

  constructor(
    @Inject('REDIS') private readonly redis: Redis,
    private readonly prisma: PrismaClient,
    private readonly http: HttpService,
  ) {}

  async approve(timesheetId: string, approverId: string): Promise<ApprovalResult> {
    // one attempt, no refresh: an approval has to fit into a single lease
    const mutex = new Mutex(this.redis, `timesheet-approval:${timesheetId}`, {
      lockTimeout: LOCK_MS,
      refreshInterval: 0,
      acquireAttemptsLimit: 1,
    });

    const deadline = performance.now() + LOCK_MS - LOCK_MARGIN_MS;
    const acquired = await mutex.tryAcquire();
    if (!acquired) throw new ConflictException('timesheet is being approved by someone else');

    try {
      return await this.approveLocked(timesheetId, approverId, deadline);
    } finally {
      await mutex.release().catch((err) => {
        this.logger.warn(`release of ${timesheetId} failed: ${err.message}`);
      });
    }
  }

  private async approveLocked(timesheetId: string, approverId: string, deadline: number): Promise<ApprovalResult> {
    const sheet = await this.prisma.timesheet.findUnique({
      where: { id: timesheetId },
      include: { entries: true },
    });
    if (!sheet) throw new NotFoundException(`timesheet ${timesheetId}`);
    if (sheet.status !== 'SUBMITTED') throw new ConflictException(`timesheet is ${sheet.status}`);
    if (sheet.employeeId === approverId) throw new ConflictException('own timesheets cannot be approved');

    const hours = sheet.entries.reduce((sum, entry) => sum + entry.minutes, 0) / 60;

    const remaining = Math.floor(deadline - performance.now());
    if (remaining <= 0) throw new ServiceUnavailableException('approval timed out');

    const { data } = await firstValueFrom(
      this.http.put(
        `/payroll/timesheets/${timesheetId}`,
        { employeeId: sheet.employeeId, week: sheet.week, hours, version: sheet.version },
        {
          timeout: Math.min(10_000, remaining),
          signal: AbortSignal.timeout(remaining),
        },
      ),
    );

    if (performance.now() >= deadline) throw new ServiceUnavailableException('approval timed out');

    const { count } = await this.prisma.timesheet.updateMany({
      where: { id: timesheetId, version: sheet.version, status: 'SUBMITTED' },
      data: {
        status: 'APPROVED',
        approverId,
        payrollRef: data.reference,
        approvedAt: new Date(),
        version: { increment: 1 },
      },
    });
    if (count === 0) throw new ConflictException('timesheet changed while it was being approved');

    this.logger.log(`approved ${timesheetId}: ${hours}h for ${sheet.employeeId}`);
    return { timesheetId, hours, payrollRef: data.reference };
  }
}
