// app/api/admin/rebuild-prices/route.ts
import { NextResponse } from "next/server"
import { Redis } from "@upstash/redis"
import { rebuildPriceLists } from "@/server/pricing"
import { assertAdmin } from "@/server/auth"

export const runtime = "nodejs"
export const maxDuration = 300

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
})

const LOCK = "lock:rebuild-prices"
const LOCK_SECONDS = maxDuration + 60 // function is killed after maxDuration

export async function POST(req: Request) {
  const admin = await assertAdmin(req)

  try {
    const locked = await redis.set(LOCK, admin.email, { nx: true, ex: LOCK_SECONDS })
    if (!locked) {
      const by = await redis.get<string>(LOCK)
      return NextResponse.json({ error: `Already running (started by ${by ?? "someone"})` }, { status: 409 })
    }

    // wipes the generated lists and writes them again
    const result = await rebuildPriceLists()
    return NextResponse.json(result)
  } catch (e) {
    console.error("rebuild-prices failed", e)
    return NextResponse.json({ error: "Rebuild failed" }, { status: 500 })
  } finally {
    await redis.del(LOCK)
  }
}
