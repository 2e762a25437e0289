package overrides

import (
	"context"
	"crypto/sha256"
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

func valueOf(key string) value {
	sum := sha256.Sum256([]byte(key))
	return value(sum[:16])
}

// Bound returns the bound of a value of a limit. limits are those that judge. Error: Unavailable
// while the copy, which may be nil, is older than they are; it is being read then.
func (c *Copy) Bound(limits *budget.Limits, l *limit.Limit, key string) (limit.Bound, error) {
	bound := limit.Bound{Max: l.Max}
	if !l.Overridden() {
		return bound, nil
	}
	if c == nil {
		return bound, notRead()
	}
	if now := time.Now().UnixMilli(); now-c.used.Load() > 100 {
		c.used.Store(now)
	}
	id := valueOf(key)
	c.mu.RLock()
	own, found := c.series[l.OverrideSeries][id]
	complete := c.version >= limits.OverridesVersion
	c.mu.RUnlock()
	switch {
	case !complete:
		c.follow(limits)
		return bound, notRead()
	case found && own == exempt:
		return limit.Bound{Exempt: true}, nil
	case found:
		return limit.Bound{Max: own}, nil
	}
	return bound, nil
}

func notRead() *budget.Error {
	return &budget.Error{Code: budget.Unavailable, Op: "find", RetryAfter: time.Second,
		Message: "the overrides of the budget's limits are still being read"}
}

// follow begins to bring the copy to the version of limits. It returns a channel that is closed
// when the reading ends, and nil if the copy has that version.
func (c *Copy) follow(limits *budget.Limits) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version >= limits.OverridesVersion {
		return nil
	}
	if c.wanted == nil || c.wanted.OverridesVersion < limits.OverridesVersion {
		c.wanted = limits
	}
	if c.reading == nil {
		c.reading = make(chan struct{})
		go c.read()
	}
	return c.reading
}

// read reads until the copy has the version that is wanted, or a read fails.
func (c *Copy) read() {
	for {
		c.mu.Lock()
		limits, version := c.wanted, c.version
		if version >= limits.OverridesVersion {
			c.end()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		err := c.step(limits, version)
		if err != nil {
			c.of.failed(err)
			c.mu.Lock()
			c.end()
			c.mu.Unlock()
			return
		}
		c.of.shrink(c)
	}
}

// end ends the reading. The caller holds mu.
func (c *Copy) end() {
	close(c.reading)
	c.reading, c.wanted = nil, nil
}

// step brings the copy towards the version of limits.
func (c *Copy) step(limits *budget.Limits, version int64) error {
	if c.of.rows == nil {
		return notRead()
	}
	if version == 0 || limits.OverridesVersion-version > farBehind {
		return c.readAll(limits)
	}
	until, reach := version+changesAtOnce, version+changesAtOnce
	if until >= limits.OverridesVersion {
		// What has changed again since then is not left out.
		until, reach = limits.OverridesVersion, math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	rows, err := c.of.rows.OverridesSince(ctx, c.budget, version, reach)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		return nil // it was dropped meanwhile
	}
	for i := range rows {
		c.put(&rows[i], c.series)
	}
	if c.version = until; until == limits.OverridesVersion {
		c.prune(limits)
	}
	return nil
}

func (c *Copy) put(row *Row, to map[int64]table) {
	of := to[row.Series]
	switch {
	case row.Removed:
		delete(of, valueOf(row.Key))
		return
	case of == nil:
		of = table{}
		to[row.Series] = of
	}
	most := row.Bound.Max
	if row.Bound.Exempt {
		most = exempt
	}
	of[valueOf(row.Key)] = most
}

// prune drops series that no limit has. The caller holds mu.
func (c *Copy) prune(limits *budget.Limits) {
	for series := range c.series {
		known := false
		for i := range limits.List {
			known = known || limits.List[i].OverrideSeries == series
		}
		if !known {
			delete(c.series, series)
		}
	}
}

// readAll reads the overrides of all limits. What changes meanwhile has a later version than limits
// and is read after that.
func (c *Copy) readAll(limits *budget.Limits) error {
	all := map[int64]table{}
	for i := range limits.List {
		l := &limits.List[i]
		if l.OverrideCount == 0 {
			continue
		}
		all[l.OverrideSeries] = make(table, l.OverrideCount)
		for after, more := "", true; more; {
			rows, err := c.page(l.OverrideSeries, after)
			if err != nil {
				return err
			}
			for j := range rows {
				c.put(&rows[j], all)
				after = rows[j].Key
			}
			more = len(rows) == pageSize
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version < limits.OverridesVersion {
		c.series, c.version = all, limits.OverridesVersion
	}
	return nil
}

func (c *Copy) page(series int64, after string) ([]Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	return c.of.rows.OverridesOf(ctx, c.budget, series, after, pageSize)
}

func (c *Copy) len() (n int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, of := range c.series {
		n += len(of)
	}
	return n
}

// drop drops what was read, and returns how many overrides that was.
func (c *Copy) drop() (n int) {
	n = c.len()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series, c.version = map[int64]table{}, 0
	return n
}
