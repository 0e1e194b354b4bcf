// Package limiter bounds the rate of calls.
package limiter

import (
	"errors"
	"sync"
	"time"
)

// ErrBusy is returned if no token is left.
var ErrBusy = errors.New("too many calls")

// Limiter is a bucket of tokens that fills over time.
type Limiter struct {
	mutex    sync.Mutex
	tokens   float64
	capacity float64
	last     time.Time
}

// Clock tells the time.
type Clock interface {
	Now() time.Time
}

// New returns a full bucket.
func New(capacity float64) *Limiter {
	return &Limiter{tokens: capacity, capacity: capacity, last: time.Now()}
}

// Allow takes a token, or fails if there is none.
func (l *Limiter) Allow(clock Clock) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.refill(clock.Now())
	if l.tokens < 1 {
		return ErrBusy
	}
	l.tokens--
	return nil
}

func (l *Limiter) refill(now time.Time) {
	l.tokens = min(l.capacity, l.tokens+now.Sub(l.last).Seconds())
	l.last = now
}
