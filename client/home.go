package client

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Home is where the balance of a bucket is: SQL in ledger mode, a partition of a store in store
// mode. The zero Home is SQL.
type Home struct {
	// Instance names the store; "" means SQL.
	Instance string `json:"instance"`
	// Partition is the number of the partition within the instance, from 0.
	Partition int `json:"partition"`
}

// inSQL is the JSON form of the zero Home.
const inSQL = "sql"

// plainHome is a Home without its methods, which would otherwise call themselves.
type plainHome Home

// String returns "sql", or the instance and the partition, such as "redis-a/0".
func (h Home) String() string {
	if h.Instance == "" {
		return inSQL
	}
	return fmt.Sprintf("%s/%d", h.Instance, h.Partition)
}

// MarshalJSONTo implements json.MarshalerTo.
func (h Home) MarshalJSONTo(out *jsontext.Encoder) error {
	if h.Instance == "" {
		return out.WriteToken(jsontext.String(inSQL))
	}
	return json.MarshalEncode(out, plainHome(h))
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. It returns an error for a text that is not
// "sql", and for an object without an instance.
func (h *Home) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	*h = Home{}
	if in.PeekKind() != '"' {
		if err := json.UnmarshalDecode(in, (*plainHome)(h)); err != nil {
			return err
		}
		if h.Instance == "" {
			return fmt.Errorf("home of a bucket: no instance")
		}
		return nil
	}
	text, err := in.ReadToken()
	if err == nil && text.String() != inSQL {
		err = fmt.Errorf("home of a bucket: %q is neither %s nor a partition", text.String(), inSQL)
	}
	return err
}
