package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// caller makes the calls of one of the concurrent callers of the drill. One call is made at a time.
type caller interface {
	deduct(ctx context.Context, name, id string, amount int64) error
	cancel(ctx context.Context, name, id string) error
	// repeats reports whether a call may have made several attempts.
	repeats() bool
	close()
}

// own is the drill's own client, which makes one attempt per call.
type own struct{ calls *client.Client }

func (o own) deduct(ctx context.Context, name, id string, amount int64) error {
	_, err := o.calls.Deduct(ctx, name, client.DeductRequest{RequestID: id, Key: id, Amount: amount})
	return err
}

func (o own) cancel(ctx context.Context, name, id string) error {
	_, err := o.calls.Cancel(ctx, name, client.CancelRequest{RequestID: id, Key: id})
	return err
}

func (own) repeats() bool { return false }
func (own) close()        {}

// answerLimit is how long a program may take for an answer. Its client repeats for some seconds.
const answerLimit = 2 * time.Minute

// program is another program that makes the calls. It reads a line of JSON with a call from stdin,
// and writes a line with its result to stdout; both have the form of sdk/vectors.json.
type program struct {
	name  string
	log   string // path of what it writes to stderr
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // what it wrote; closed at its end
}

// request is the line of a call.
type request struct {
	Op      string        `json:"op"` // deduct or cancel
	Budget  string        `json:"budget"`
	Request requestMember `json:"request"`
}

type requestMember struct {
	RequestID string `json:"request_id"`
	Key       string `json:"key"`
	Amount    int64  `json:"amount,omitzero"`
}

// result is the line of a result: an answer of the API, or an error.
type result struct {
	Answer *struct {
		RequestID string `json:"request_id"`
		Amount    int64  `json:"amount"`
		State     string `json:"state"`
	} `json:"answer"`
	Error *callError `json:"error"`
}

// callError is an error in the words of sdk/README.md.
type callError struct {
	Kind      string      `json:"kind"`
	Code      budget.Code `json:"code"`
	Cancelled bool        `json:"cancelled"`
	Message   string      `json:"message"`
}

var kinds = map[string]budget.Kind{"refused": budget.Refused, "conflict": budget.Conflict,
	"not_now": budget.NotDone, "unknown": budget.MayBeDone, "faulty": budget.Faulty}

func (e *callError) Error() string { return e.Kind + " " + string(e.Code) + " " + e.Message }

// broken means that a program does not do what a caller must do. It ends the drill.
type broken struct{ error }

// kindOf, codeOf and isCancelled describe an error of a caller.
func kindOf(err error) budget.Kind {
	if e := (*callError)(nil); errors.As(err, &e) {
		return kinds[e.Kind]
	}
	return client.KindOf(err)
}

func codeOf(err error) budget.Code {
	if e := (*callError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return client.CodeOf(err)
}

func isCancelled(err error) bool {
	e := (*callError)(nil)
	return errors.As(err, &e) && e.Cancelled
}

// startProgram runs a command by the shell, with BUDGETD_URL, the addresses of all nodes with
// commas, and BUDGETD_CALLER, its number. What it writes to stderr is kept in dir.
func startProgram(command, url, dir, name string, number int) (*program, error) {
	p := &program{name: name, log: filepath.Join(dir, name+".log"), lines: make(chan []byte)}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command("sh", "-c", command)
	p.cmd.Env = append(os.Environ(), "BUDGETD_URL="+url, fmt.Sprintf("BUDGETD_CALLER=%d", number))
	p.cmd.Stderr, p.cmd.SysProcAttr = log, apart()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		// As in launch: the kernel kills the child when the thread that started it ends.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				p.lines <- append([]byte(nil), lines.Bytes()...)
			}
			_ = p.cmd.Wait() // its log says how it ended
		}
		close(p.lines)
	}()
	return p, <-started
}

// close ends the program and all that it started.
func (p *program) close() {
	_ = p.in.Close()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error means that it has ended
	for range p.lines {
	}
}

func (p *program) repeats() bool { return true }

func (p *program) deduct(ctx context.Context, name, id string, amount int64) error {
	out, err := p.call(ctx, request{"deduct", name, requestMember{id, id, amount}})
	if err == nil && (out.Answer.Amount != amount || out.Answer.State != "used") {
		return p.fails(fmt.Sprintf("a deduct of %d units as %s has the answer %+v", amount, id,
			*out.Answer))
	}
	return err
}

func (p *program) cancel(ctx context.Context, name, id string) error {
	_, err := p.call(ctx, request{"cancel", name, requestMember{id, id, 0}})
	return err
}

// call sends a call and returns what the program answers.
func (p *program) call(ctx context.Context, r request) (result, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return result{}, err
	}
	if _, err = p.in.Write(append(line, '\n')); err != nil {
		return result{}, p.fails("it takes no call: " + err.Error())
	}
	select {
	case <-ctx.Done():
		return result{}, ctx.Err()
	case <-time.After(answerLimit):
		return result{}, p.fails("it does not answer " + string(line))
	case text, more := <-p.lines:
		var out result
		switch err := json.Unmarshal(text, &out, jsontext.AllowDuplicateNames(false)); {
		case !more:
			return out, p.fails("it has ended")
		case err != nil, (out.Answer == nil) == (out.Error == nil),
			out.Answer != nil && out.Answer.RequestID != r.Request.RequestID,
			out.Error != nil && kinds[out.Error.Kind] == 0:
			return out, p.fails(fmt.Sprintf("it answers %s with %s", line, text))
		case out.Error != nil:
			return out, out.Error
		}
		return out, nil
	}
}

// fails returns an error with the last lines of what the program says.
func (p *program) fails(why string) error {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return broken{err}
	}
	return broken{fmt.Errorf("%s: %s\n%s", p.name, why, lastLines(string(log)))}
}
