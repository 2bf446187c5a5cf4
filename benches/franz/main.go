// Members of one group by franz-go, for the bench of rebalances: BOOTSTRAP TOPIC GROUP [NAME=VALUE].
//
// A line of the input is "join NUMBER" or "leave NUMBER REST", where REST are the milliseconds between the member's last poll and its
// leaving; at its end all leave. A line of the output is what a member's application saw, by the clock of the machine: "NANOSECONDS
// NUMBER WHAT PARTITIONS", WHAT one of joins, assigned, revoked, read, leaves, and failed, which has a text in place of partitions.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The clients of the others wait so long for records at the brokers.
const fetchWait = 500 * time.Millisecond

var output sync.Mutex

func fail(err error) {
	fmt.Fprintln(os.Stderr, "franz-bench:", err)
	os.Exit(1)
}

type member struct {
	number, topic string
	stop          context.CancelFunc
	rest          time.Duration
	left          chan struct{}
}

func (m *member) tell(what, about string) {
	line := fmt.Sprintf("%d %s %s %s\n", time.Now().UnixNano(), m.number, what, about)
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.WriteString(line); err != nil {
		fail(err)
	}
}

func (m *member) saw(what string, partitions []int32) {
	if len(partitions) == 0 {
		return
	}
	texts := make([]string, 0, len(partitions))
	for _, partition := range partitions {
		texts = append(texts, strconv.Itoa(int(partition)))
	}
	m.tell(what, strings.Join(texts, ","))
}

func (m *member) moved(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		m.saw(what, partitions[m.topic])
	}
}

func (m *member) run(ctx context.Context, options []kgo.Opt) {
	defer close(m.left)
	m.tell("joins", "")
	client, err := kgo.NewClient(slices.Concat(options, []kgo.Opt{
		kgo.OnPartitionsAssigned(m.moved("assigned")), kgo.OnPartitionsRevoked(m.moved("revoked")),
		kgo.OnPartitionsLost(m.moved("revoked")),
	})...)
	if err != nil {
		m.tell("failed", err.Error())
		return
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if ctx.Err() == nil {
				m.tell("failed", e.Err.Error())
			}
		}
		var read []int32
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				read = append(read, p.Partition)
			}
		})
		m.saw("read", read)
	}
	time.Sleep(m.rest)
	m.tell("leaves", "")
	client.Close()
}

func (m *member) leave(rest time.Duration) {
	// Before the stop, which the member's goroutine sees first.
	m.rest = rest
	m.stop()
	<-m.left
}

func options(bootstrap, topic, group string, properties []string) []kgo.Opt {
	out := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(fetchWait),
	}
	for _, property := range properties {
		name, value, _ := strings.Cut(property, "=")
		switch {
		case property == "balancer=range":
			out = append(out, kgo.Balancers(kgo.RangeBalancer()))
		case property == "balancer=cooperative-sticky":
			out = append(out, kgo.Balancers(kgo.CooperativeStickyBalancer()))
		case property == "balancer=server-side":
			out = append(out, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
		case name == "heartbeat_ms":
			ms, err := strconv.Atoi(value)
			if err != nil {
				fail(err)
			}
			out = append(out, kgo.HeartbeatInterval(time.Duration(ms)*time.Millisecond))
		default:
			fail(fmt.Errorf("unknown property %q", property))
		}
	}
	return out
}

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: franz-bench BOOTSTRAP TOPIC GROUP [NAME=VALUE]"))
	}
	topic := os.Args[2]
	common := options(os.Args[1], topic, os.Args[3], os.Args[4:])
	members := map[string]*member{}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		order, rest, _ := strings.Cut(orders.Text(), " ")
		number, rest, _ := strings.Cut(rest, " ")
		switch order {
		case "join":
			ctx, stop := context.WithCancel(context.Background())
			members[number] = &member{number: number, topic: topic, stop: stop, left: make(chan struct{})}
			go members[number].run(ctx, common)
		case "leave":
			ms, err := strconv.Atoi(rest)
			if err != nil {
				fail(err)
			}
			members[number].leave(time.Duration(ms) * time.Millisecond)
			delete(members, number)
		default:
			fail(fmt.Errorf("unknown order %q", order))
		}
	}
	for _, m := range members {
		m.stop()
	}
	for _, m := range members {
		<-m.left
	}
}
