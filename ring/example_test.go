package ring_test

import (
	"fmt"
	"strconv"

	"github.com/budgetd/budgetd/ring"
)

func Example() {
	instances := []string{"192.168.0.0:111", "192.168.0.1:111", "192.168.0.2:111"}
	r, err := ring.New(instances, ring.DefaultPointsPerNode)
	if err != nil {
		fmt.Println(err)
		return
	}
	home := r.Locate("order-20261120-000001")
	fmt.Println("home:", home)

	// The home is down: the key moves to the next instance clockwise; all other keys stay.
	next, ok := r.LocateWithout("order-20261120-000001",
		func(node string) bool { return node == home })
	fmt.Println("next:", next, ok)

	for node := range r.Walk("order-20261120-000001") {
		fmt.Println("walk:", node)
	}
	// Output:
	// home: 192.168.0.1:111
	// next: 192.168.0.0:111 true
	// walk: 192.168.0.1:111
	// walk: 192.168.0.0:111
	// walk: 192.168.0.2:111
}

// A ring over bucket ordinals serves every budget with that many buckets.
func ExampleRing_LocateIndex() {
	ordinals := make([]string, 10)
	for i := range ordinals {
		ordinals[i] = strconv.Itoa(i)
	}
	r, err := ring.New(ordinals, ring.DefaultPointsPerNode)
	if err != nil {
		fmt.Println(err)
		return
	}
	var offline [10]bool
	isOffline := func(bucket int) bool { return offline[bucket] }
	for range 3 {
		bucket := r.LocateIndex("customer-7", isOffline)
		fmt.Println(bucket)
		offline[bucket] = true // exhausted: the next one online
	}
	// Output:
	// 6
	// 9
	// 4
}
