// A shop that sells tickets, written against budgetd's /openapi.json: its types are generated from
// it. It makes a budget, sells what there is, and ends with the books.
//
//	node build/shop.js http://127.0.0.1:8080 [key]
import createClient from "openapi-fetch";
import type { components, paths } from "../../../sdk/typescript/src/api.js";

type Problem = components["schemas"]["Problem"];

const [, , baseUrl = "http://127.0.0.1:8080", key = ""] = process.argv;
const api = createClient<paths>({ baseUrl, headers: key ? { Authorization: `Bearer ${key}` } : {} });

/** A refusal is a value with a code; a call that stayed unknown is repeated with the same id. */
async function certain<T>(call: () => Promise<{ data?: T; error?: Problem }>): Promise<T | Problem> {
  for (let attempt = 0; ; attempt++) {
    const { data, error } = await call();
    if (data !== undefined) return data;
    if (error === undefined) throw new Error("an answer without a body");
    const again = error.code === "unavailable" || error.code === "outcome_unknown";
    if (!again || attempt === 9) return error;
    await new Promise((done) => setTimeout(done, (error.retry_after ?? 1) * 1000));
  }
}

function good<T extends object>(answer: T | Problem): T {
  if ("code" in answer && "docs" in answer) {
    throw new Error(`${answer.code}: ${answer.detail ?? answer.title} (${answer.docs})`);
  }
  return answer as T;
}

const path = { budget: "tickets" };

good(await certain(() => api.POST("/v1/budgets", {
  body: {
    name: path.budget, unit: "count", type: "promo", total_quantity: 10, bucket_quantity: 2,
    limits: [{
      name: "per-user", dimension: "user", max: 4, measure: "amount", optional: true,
      window: { kind: "calendar", every: "day", timezone: "Europe/Berlin" },
    }],
  },
})));

const buy = (request_id: string, amount: number, user: string) =>
  certain(() => api.POST("/v1/budgets/{budget}/deduct", {
    params: { path }, body: { request_id, amount, dimensions: { user } },
  }));

const first = good(await buy("order-1", 3, "ann"));
const again = good(await buy("order-1", 3, "ann"));
console.log("sold", first.amount, "replayed", again.replayed);

const greedy = await buy("order-2", 2, "ann");
if ("code" in greedy) {
  for (const limit of greedy.limits ?? []) {
    console.log("refused", greedy.code, limit.name, `${limit.used} of ${limit.max}`, "asked", limit.asked);
  }
}

good(await certain(() => api.POST("/v1/budgets/{budget}/deduct", {
  params: { path }, body: { request_id: "cart-1", amount: 4, hold_ttl: "15m" },
})));
const paid = good(await certain(() => api.POST("/v1/budgets/{budget}/confirm", {
  params: { path }, body: { request_id: "cart-1", amount: 3 },
})));
console.log("paid", paid.state, paid.confirmed);

const { results } = good(await certain(() => api.POST("/v1/deductions:batch", {
  body: {
    deductions: [
      { budget: path.budget, request_id: "order-3", amount: 1 },
      { budget: path.budget, request_id: "order-4", amount: 100 },
    ],
  },
})));
console.log("batch", ...results.map((r) => r.outcome ?? r.code));

good(await certain(() => api.POST("/v1/budgets/{budget}/rollback", {
  params: { path }, body: { request_id: "order-1", amount: 1, rollback_id: "return-1" },
})));

let after: string | undefined;
const feed: string[] = [];
for (;;) {
  const page = good(await certain(() => api.GET("/v1/budgets/{budget}/ledger", {
    params: { path, query: { limit: 2, ...(after === undefined ? {} : { after }) } },
  })));
  if (page.entries.length === 0) break;
  feed.push(...page.entries.map((e) => `${e.kind} ${e.request_id} ${e.amount}`));
  after = page.next;
}
console.log("feed", feed.sort().join(", "));

const { data: budget } = await api.GET("/v1/budgets/{budget}", { params: { path } });
const { data: audit } = await api.GET("/v1/budgets/{budget}/audit", { params: { path } });
console.log("books", budget?.used, "used", budget?.remaining, "left", audit?.ok ? "ok" : "not ok");
