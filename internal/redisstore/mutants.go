//go:build mutants

package redisstore

import "github.com/budgetd/budgetd/internal/safeguard"

// swaps are the pieces of the scripts that are safeguards, and what stands there while one is off. No
// two of a script overlap. One that is not in its script exactly once ends the process, whichever
// safeguard is off.
var swaps = []struct {
	name         safeguard.Name
	script       *string
	old, instead string
}{
	{safeguard.Activation, &sharedLua, "bucket.activation ~= activation", "false"},
	{safeguard.LaneActivation, &sharedLua, "activation ~= lane_activation", "false"},
	{safeguard.ClosedInStore, &sharedLua, "if bucket.closed then return EPOCH_CLOSED end", ""},
	{safeguard.LateOpen, &sharedLua,
		"if last_epoch > this then return EPOCH_GONE, nil, nil, info[i + 1] end\n      " +
			"if last_epoch == this and seq == -1 then return EPOCH_GONE end",
		"if last_epoch >= this then bucket.seq, bucket.chain = seq + n, chain return OK end"},
	{safeguard.NoExpiry, &sharedLua, "local after = units > 0",
		"redis.pcall('PEXPIRE', key, 600000) local after = units > 0"},
	{safeguard.GrantNumbers, &grantLua, "if number <= bucket.grant_seq then", "if false then"},
	{safeguard.GrantOrder, &grantLua, "elseif number > bucket.grant_seq + 1 then", "elseif false then"},
	{safeguard.Balance, &deductLua, "if balance < amount then\n          verdict = INSUFFICIENT",
		"if false then\n          verdict = INSUFFICIENT"},
	{safeguard.SmallestSeq, &deductLua, "elseif seq < list[at + 1] then", "elseif false then"},
	{safeguard.WindowCeiling, &deductLua,
		"elseif record and list[at + 3] > 0 and amount > list[at + 3] - deducted then", "elseif false then"},
	{safeguard.PeriodInStore, &deductLua, "if record and list[at + 4] > 0 and now >= list[at + 4] then", "if false then"},
	{safeguard.LimitInStore, &countersLua, "if over then", "if false then"},
	{safeguard.OlderLimits, &deductLua, "elseif record and older then", "elseif false then"},
	{safeguard.LoadedCounters, &countersLua, "if begin < since(d) then return 0 end", ""},
	{safeguard.RecordsFirst, &deductLua, "if known then verdict = RECORDED end",
		"if balance < amount then known = nil end if known then verdict = RECORDED end"},
	{safeguard.AppendFirst, &deductLua, "untaken, untaken_why, fault = append(log_key, e.epoch, bucket, lines, entries, stamp)",
		"redis.pcall('HSET', balance_key, 'balance', text_of(balance)) " +
			"untaken, untaken_why, fault = append(log_key, e.epoch, bucket, lines, entries, stamp)"},
	{safeguard.KeptVoids, &voidLua, "fault = keep.write(KEYS[k + 3], list, #list)",
		"fault = keep.remember(balance_key, k + 1, list, #list)"},
	{safeguard.ReplicationID, &sharedLua,
		"if not find(info, 'master_replid:' .. lane_replid .. '\\r\\n', 1, true) then", "if false then"},
}

func init() {
	for _, s := range swaps {
		*s.script = safeguard.Swap(s.name, *s.script, s.old, s.instead)
	}
}
