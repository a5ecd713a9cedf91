const { Telegraf } = require('telegraf');
const Redis = require('ioredis');
const { Pool } = require('pg');

const bot = new Telegraf(process.env.BOT_TOKEN);
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ statement_timeout: 4000 });

const REWARD = 50;

bot.command('daily', async (ctx) => {
  const userId = ctx.from.id;
  const key = `daily:${userId}`;

  try {
    const locked = await redis.set(key, '1', 'EX', 30, 'NX');
    if (!locked) {
      await ctx.reply('One moment, still working on your last request.');
      return;
    }

    const { rows } = await pool.query('SELECT coins, last_daily FROM players WHERE telegram_id = $1', [userId]);
    if (!rows.length) {
      await ctx.reply('Send /start first.');
      return;
    }

    const today = new Date().toISOString().slice(0, 10);
    const last = rows[0].last_daily ? rows[0].last_daily.toISOString().slice(0, 10) : null;
    if (last === today) {
      await ctx.reply('You already took your reward today, come back tomorrow!');
      return;
    }

    const { rows: bonus } = await pool.query(
      'SELECT coalesce(sum(amount), 0)::int AS extra FROM boosts WHERE telegram_id = $1 AND active',
      [userId],
    );
    const amount = REWARD + bonus[0].extra;
    await pool.query('UPDATE players SET coins = coins + $2, last_daily = now() WHERE telegram_id = $1', [
      userId,
      amount,
    ]);
    await ctx.reply(`You got ${amount} coins. You have ${rows[0].coins + amount} now.`);
  } catch (err) {
    console.error('daily', userId, err);
    await ctx.reply('Something went wrong, try again later.');
  } finally {
    await redis.del(key);
  }
});

bot.command('balance', async (ctx) => {
  const { rows } = await pool.query('SELECT coins FROM players WHERE telegram_id = $1', [ctx.from.id]);
  await ctx.reply(rows.length ? `${rows[0].coins} coins` : 'Send /start first.');
});

bot.launch();

process.once('SIGINT', () => bot.stop('SIGINT'));
process.once('SIGTERM', () => bot.stop('SIGTERM'));
