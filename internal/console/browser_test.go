package console_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// screenshots is the directory for the pictures of docs/console. If it is empty, no pictures are
// taken.
var screenshots = flag.String("screenshots", "", "take pictures of every view into this folder")

// browser is the one Chromium of all tests. Each test has tabs of its own.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	// Debian's Chromium does not start as root with its sandbox; the pages are our own.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.WindowSize(1280, 900))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "no Chromium; scripts/test-deps.sh installs it:", err)
		os.Exit(1)
	}
	browser = ctx
	status := m.Run()
	cancel()
	end()
	os.Exit(status)
}

// tab is an open page of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string // what the browser complained about
}

// patience bounds how long a page may take to show something.
const patience = 2 * time.Minute

// action is a step of a person or of the system before the page.
type action = chromedp.Action[chromedp.Void]

// open shows an address in a new tab.
func open(t *testing.T, address string, before ...action) *tab {
	t.Helper()
	p := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(),
		chromedp.WithListener(p.hear))
	t.Cleanup(cancel)
	p.ctx = ctx
	if err := chromedp.Do(ctx, command(log.Enable, cdp.Empty{})); err != nil {
		t.Fatal(err)
	}
	p.do(append(before, chromedp.Navigate(address))...)
	return p
}

// hear records the complaints of the browser.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.said = append(p.said, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		p.said = append(p.said, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
	}
}

// command is a command of the protocol as an action.
func command[P, R any](c cdp.Command[P, R], params P) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// do runs actions, within patience.
func (p *tab) do(actions ...action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%v; the page shows:\n%s", err, p.text())
	}
}

// value evaluates an expression in the page.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	out, err := evaluate[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

func evaluate[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// leaves is what the browser answers if the page is replaced while it evaluates.
const leaves = "Inspected target navigated or closed"

// complaints returns what the browser complained about: scripts that failed, policies that were
// broken, calls that were refused.
func (p *tab) complaints() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

// text is what is visible.
func (p *tab) text() string { return value[string](p, `document.body?.innerText ?? ''`) }

// until waits until an expression is true. The page may be loaded again meanwhile.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		is, err := evaluate[bool](p, expression)
		switch {
		case is:
			return
		case err != nil && !strings.Contains(err.Error(), leaves):
			p.t.Fatalf("%s: %v", expression, err)
		}
	}
	p.t.Fatalf("%s: it does not come; the page shows:\n%s\nand complains:\n%s", what, p.text(),
		p.complaints())
}

// sees waits until texts are visible.
func (p *tab) sees(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.until(fmt.Sprintf("to see %q", text),
			fmt.Sprintf(`!!document.body?.innerText.includes(%q)`, text))
	}
}

// rows returns the rows of a table, by its caption: the visible texts of their cells.
func (p *tab) rows(caption string) [][]string {
	p.t.Helper()
	return value[[][]string](p, fmt.Sprintf(`[...[...document.querySelectorAll('table')]
		.find(t => t.caption?.textContent === %q)?.tBodies[0].rows ?? []]
		.map(r => [...r.cells].map(c => c.innerText.trim()))`, caption))
}

// js runs a statement in the page.
func (p *tab) js(statement string) {
	p.t.Helper()
	value[bool](p, `(() => { `+statement+`; return true })()`)
}

// named finds an element by its role and its accessible name, as a screen reader does.
func named(role, name string) string {
	return fmt.Sprintf(`(() => {
	const of = {link: 'a[href]', button: 'button', textbox: 'input,textarea', combobox: 'select',
		checkbox: 'input[type=checkbox]', tab: '[role=tab]'}[%q];
	const label = (e) => (e.getAttribute('aria-label') ?? (e.labels?.length
		? [...e.labels].map(l => l.innerText || l.textContent).join(' ') : e.innerText)).trim();
	return [...document.querySelectorAll(of)].filter(e => e.checkVisibility())
		.find(e => label(e) === %q || label(e).startsWith(%q + '\n'));
})()`, role, name, name)
}

// finds waits for an element, and returns an expression for it.
func (p *tab) finds(role, name string) string {
	p.t.Helper()
	p.until(fmt.Sprintf("a %s called %q", role, name), `!!`+named(role, name))
	return named(role, name)
}

// clicks clicks an element.
func (p *tab) clicks(role, name string) {
	p.t.Helper()
	p.js(p.finds(role, name) + `.click()`)
}

// types writes into a field as a person does, in place of what is there. A page that is shown just
// now moves the focus to its heading: then the keys go elsewhere, and a person types again.
func (p *tab) types(name, text string) {
	p.t.Helper()
	left := strings.TrimSuffix(text, kb.Backspace)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		p.js(p.finds("textbox", name) + `.focus(); document.activeElement.select()`)
		p.do(chromedp.KeyEvent(text))
		if value[bool](p, fmt.Sprintf(`%s?.value === %q`, named("textbox", name), left)) {
			return
		}
	}
	p.t.Fatalf("%q cannot be typed into %s; the page shows:\n%s", text, name, p.text())
}

// chooses picks an option of a list.
func (p *tab) chooses(name, option string) {
	p.t.Helper()
	p.js(fmt.Sprintf(`const e = %s; e.value = %q; e.dispatchEvent(new Event('change',
		{bubbles: true}))`, p.finds("combobox", name), option))
}

// presses sends a key to what has the focus.
func (p *tab) presses(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// focused is the accessible name of what has the focus.
func (p *tab) focused() string {
	p.t.Helper()
	return value[string](p, `(document.activeElement.getAttribute('aria-label') ??
		document.activeElement.innerText).trim()`)
}

// prefers has the system prefer a colour scheme.
func prefers(scheme string) action {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// phone is a narrow screen.
func phone() action { return chromedp.EmulateViewport(375, 740) }

// pictures is where the pictures are that the documents show.
const pictures = "../../docs/console"

// picture takes a picture of the whole page, in both colour schemes, if pictures are asked for.
// Otherwise it checks that docs/console has them.
func (p *tab) picture(name string) {
	p.t.Helper()
	if *screenshots == "" {
		for _, scheme := range []string{"dark", "light"} {
			if _, err := os.Stat(filepath.Join(pictures, name+"-"+scheme+".png")); err != nil {
				p.t.Errorf("a picture is missing, see docs/console/README.md: %v", err)
			}
		}
		return
	}
	for _, scheme := range []string{"dark", "light"} {
		p.do(prefers(scheme), chromedp.Sleep(300*time.Millisecond))
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		shot := chromedp.FullScreenshot(100)
		if value[bool](p, `!!document.querySelector('dialog')`) { // it covers what is visible
			shot = chromedp.CaptureScreenshot()
		}
		png, err := chromedp.Run(ctx, shot)
		if err == nil {
			err = os.WriteFile(filepath.Join(*screenshots, name+"-"+scheme+".png"), png, 0o644)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// taken matches a call that takes a picture. A name may go on with the value of a variable.
var taken = regexp.MustCompile(`\.picture\("([a-z-]+)"( \+ )?`)

// TestPictures checks that a test takes each picture in docs/console, and that the page there shows
// it in one of its colour schemes. The test that takes it runs without pictures, too.
func TestPictures(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(pictures, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var names, beginnings []string
	for _, test := range tests {
		text, err := os.ReadFile(test)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range taken.FindAllStringSubmatch(string(text), -1) {
			if m[2] == "" {
				names = append(names, m[1])
			} else {
				beginnings = append(beginnings, m[1])
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(pictures, "*-light.png"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pictures in %s: %v", len(files), pictures, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-light.png")
		begins := func(beginning string) bool { return strings.HasPrefix(name, beginning) }
		if !slices.Contains(names, name) && !slices.ContainsFunc(beginnings, begins) {
			t.Errorf("no test takes the picture %s", name)
		}
		if !strings.Contains(string(page), "("+name+"-") {
			t.Errorf("docs/console/README.md does not show the picture %s", name)
		}
	}
}
