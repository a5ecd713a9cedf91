// app/api/summarize/route.ts
import { Redis } from "@upstash/redis";
import { NextResponse } from "next/server";
import { getUserId } from "@/lib/session";

export const maxDuration = 60;

const redis = Redis.fromEnv();

export async function POST(req: Request) {
  const userId = await getUserId(req);
  if (!userId) return NextResponse.json({ error: "unauthorized" }, { status: 401 });

  const { text } = await req.json();
  const lockKey = `lock:summarize:${userId}`;
  const requestId = crypto.randomUUID();

  try {
    // one summary at a time per user, so the credits can't be spent in parallel
    const locked = await redis.set(lockKey, requestId, { nx: true, ex: 90 });
    if (locked !== "OK") {
      return NextResponse.json({ error: "A summary is already running" }, { status: 429 });
    }

    const credits = (await redis.get<number>(`credits:${userId}`)) ?? 0;
    if (credits < 1) return NextResponse.json({ error: "no credits left" }, { status: 402 });

    const res = await fetch("https://api.openai.com/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
      body: JSON.stringify({
        model: "gpt-4o-mini",
        messages: [{ role: "user", content: `Summarize in five bullet points:\n\n${text}` }],
      }),
      signal: AbortSignal.timeout(40_000),
    });
    if (!res.ok) return NextResponse.json({ error: "upstream error" }, { status: 502 });

    const data = await res.json();
    await redis.set(`credits:${userId}`, credits - 1);
    return NextResponse.json({ summary: data.choices[0].message.content, credits: credits - 1 });
  } catch (err) {
    console.error(requestId, err);
    return NextResponse.json({ error: "internal error" }, { status: 500 });
  } finally {
    await redis.del(lockKey);
  }
}
