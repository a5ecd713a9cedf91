import { expect, it } from 'vitest';
import { withInjected } from './injected.js';

const body = (text: string): string => withInjected(`class A {\n${text}\n}`).replace(/^[\s\S]*?class A \{\n/, '');

it('gives properties what is injected, on their lines', () => {
  expect(body("  @Inject('REDIS') private readonly redis!: Redis;\n  @Inject()\n  pool!: Pool;")).toBe(
    '  private readonly redis: Redis = injectedRedis;\n\n  pool: Pool = injectedServices.pool;\n}',
  );
  expect(withInjected('class A {\n  @InjectRedis() db: Client;\n}')).toMatch(
    /^import \{ redis as injectedRedis \} from '#injected\/redis';class A \{\n/,
  );
});

it('leaves out what only describes a property, and gives no lock', () => {
  expect(body('  @Column({ type: "int", of: [f(1)] })\n  size = 3;\n  @IsString() @Length(1, 3) name!: string;')).toBe(
    '\n  size = 3;\n  name!: string;\n}',
  );
  expect(body('  @Inject() private readonly redlock!: Redlock;')).toBe('  private readonly redlock!: Redlock;\n}');
});

it('changes neither methods, nor parameters, nor classes', () => {
  for (const text of [
    "@Injectable()\nexport class B {\n  @Get(':id')\n  async find(@Param('id') id: string): Promise<void> {}\n}",
    'class C {\n  constructor(\n    @Inject(REDIS) private readonly redis: Redis,\n    @Inject(POOL) pool: Pool,\n  ) {}\n}',
    'const mail = { to: "a@b.example" };',
  ])
    expect(withInjected(text)).toBe(text);
});
