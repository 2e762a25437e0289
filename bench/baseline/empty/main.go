// Empty is baseline (a): a net/http handler that decodes a JSON body and encodes an answer, and
// does nothing else. It shows what HTTP and JSON cost on this machine.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
)

type deduction struct {
	RequestID string `json:"request_id"`
	Amount    int64  `json:"amount"`
	User      string `json:"user"`
}

type answer struct {
	RequestID string `json:"request_id"`
	Outcome   string `json:"outcome"`
}

func handle(w http.ResponseWriter, r *http.Request) {
	var d deduction
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{d.RequestID, "accepted"}) // the caller may be gone
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /deduct", handle)
	log.Fatal(http.Serve(listener, mux))
}
