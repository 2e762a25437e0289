package main

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// carve creates a child with units of a parent, which it reads first because both have one unit.
func (t *tools) carve(ctx context.Context, in carveArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	parent, err := t.client.Budget(ctx, in.Parent)
	if err != nil {
		return "", nil, err
	}
	child, err := t.client.Create(ctx, client.CreateRequest{Name: in.Child, Parent: parent.Name,
		Unit: parent.Unit, Type: budget.Promo, TotalQuantity: in.Units, TTL: in.TTL})
	if err != nil {
		return "", nil, err
	}
	text := fmt.Sprintf("Done: budget %s has %d units of %s.", child.Name, *child.TotalQuantity,
		parent.Name)
	if child.Status != budget.Effective {
		return text + fmt.Sprintf(" It was carved before and is %s now.", child.Status), child, nil
	}
	text += fmt.Sprintf(" It has %d left.", *child.Remaining)
	if !child.EndAt.IsZero() {
		text += fmt.Sprintf(" It ends at %s.", child.EndAt.Format(time.RFC3339))
	}
	return text, child, nil
}

// close ends a child. The server refuses to end a budget without a parent.
func (t *tools) close(ctx context.Context, in closeArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	child, err := t.client.Close(ctx, in.Budget)
	if err != nil {
		return "", nil, err
	}
	text := fmt.Sprintf("Done: budget %s is closed. It used %d units.", child.Name, child.Used)
	if child.Held > 0 {
		text += fmt.Sprintf(" %d are held and go back when their holds end.", child.Held)
	}
	return text, child, nil
}
