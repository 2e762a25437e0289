package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// forged measures how much connections that send keys which nobody was given slow an append down.
type forged struct{ away *time.Duration }

const (
	// forgers is the number of those connections, forgedKeys that of their keys.
	forgers    = 8
	forgedKeys = 16
	// settling is how long they send before an append is measured.
	settling = time.Second
)

func (f forged) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger", keys: true, sqlAway: f.away})
	if err != nil {
		return measurement{}, err
	}
	key, err := os.ReadFile(filepath.Join(s.dir, "first-admin.key"))
	if err != nil {
		return measurement{}, err
	}
	c, err := client.New("http://"+b.address, client.WithToken(strings.TrimSpace(string(key))))
	if err == nil {
		err = s.create(c, 1, func(int) client.CreateRequest {
			return client.CreateRequest{Name: "small", TotalQuantity: 1_000_000_000, BucketQuantity: 64,
				ShardingQuantity: 1_000, Durability: budget.Ledger}
		})
	}
	if err != nil {
		return measurement{}, err
	}
	again := verb{"append", often, nil, func(ctx context.Context, _ int) error {
		_, err := c.Append(ctx, "small", client.AppendRequest{RequestID: client.NewRequestID(),
			Quantity: 100})
		return err
	}}
	alone, err := again.median(s)
	if err != nil {
		return measurement{}, err
	}
	keys, err := s.strangers()
	if err != nil {
		return measurement{}, err
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	var refused atomic.Int64
	var odd error
	var once sync.Once
	var all sync.WaitGroup
	began := time.Now()
	for i := range forgers {
		all.Go(func() {
			if err := forge(ctx, b.address, keys[i:], &refused); err != nil {
				once.Do(func() { odd = err })
			}
		})
	}
	time.Sleep(settling)
	beside, err := again.median(s)
	stop()
	all.Wait()
	return measurement{named: []figure{{"append, ms", milliseconds(alone)},
		{"beside forged keys, ms", milliseconds(beside)},
		{"beside ÷ alone", float64(beside) / float64(alone)},
		{"refused a second", float64(refused.Load()) / time.Since(began).Seconds()},
	}}, errors.Join(err, odd)
}

// strangers returns well-formed keys that no server knows.
func (s *stage) strangers() (keys []string, err error) {
	for range forgedKeys {
		key, err := s.output("budgetctl", "keys", "generate")
		if err != nil {
			return nil, err
		}
		keys = append(keys, strings.TrimSpace(string(key)))
	}
	return keys, nil
}

// forge asks for a budget with one key after the other over a connection of its own, until ctx
// ends. It returns an error if one of them is not refused.
func forge(ctx context.Context, address string, keys []string, refused *atomic.Int64) error {
	h := &http.Client{Transport: &http.Transport{}}
	defer h.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/budgets/small",
			http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+keys[n%len(keys)])
		answer, err := h.Do(req)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusTooManyRequests:
			refused.Add(1)
		default:
			return fmt.Errorf("a forged key was answered with %s", answer.Status)
		}
	}
	return nil
}
