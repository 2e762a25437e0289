package main

import (
	"errors"

	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The answers without their marshalers, which would otherwise call themselves.
type (
	plainBudget   client.Budget
	plainAnswer   client.DeductAnswer
	plainForeseen client.Foreseen
)

// unlimited writes the remainder of an unlimited budget as null, like the API. The client has 0.
var unlimited = json.JoinMarshalers(
	json.MarshalToFunc(func(out *jsontext.Encoder, b client.Budget) error {
		if !b.Unlimited {
			return errors.ErrUnsupported
		}
		return json.MarshalEncode(out, struct {
			plainBudget   `json:",inline"`
			TotalQuantity *int64 `json:"total_quantity"`
			OutQuantity   *int64 `json:"out_quantity"`
			Undistributed *int64 `json:"undistributed"`
			NotFunded     *int64 `json:"not_funded"`
			Remaining     *int64 `json:"remaining"`
			InBuckets     *int64 `json:"in_buckets"`
		}{plainBudget: plainBudget(b)})
	}),
	json.MarshalToFunc(func(out *jsontext.Encoder, d client.DeductAnswer) error {
		if !d.Unlimited {
			return errors.ErrUnsupported
		}
		return json.MarshalEncode(out, struct {
			plainAnswer     `json:",inline"`
			BucketRemaining *int64 `json:"bucket_remaining"`
			BudgetRemaining *int64 `json:"budget_remaining"`
		}{plainAnswer: plainAnswer(d)})
	}),
	json.MarshalToFunc(func(out *jsontext.Encoder, d client.Foreseen) error {
		if !d.Unlimited {
			return errors.ErrUnsupported
		}
		return json.MarshalEncode(out, struct {
			plainForeseen   `json:",inline"`
			BudgetRemaining *int64 `json:"budget_remaining"`
		}{plainForeseen: plainForeseen(d)})
	}),
)
