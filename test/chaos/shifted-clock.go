package time

import (
	"syscall"
	"unsafe"
)

// Joins Go's own package at the build of Temporal's server: a program of Go preloads no library. The wall clock is ahead
// of the machine's by these seconds, in shared memory that may change at any time. Monotonic time and timers stay.
var shift = func() *int64 {
	path, _ := syscall.Getenv("TEST_CLOCK_SHIFT_FILE")
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return new(int64)
	}
	mapped, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	syscall.Close(file)
	if err != nil {
		return new(int64)
	}
	return (*int64)(unsafe.Pointer(&mapped[0]))
}()

func shiftSeconds() int64 { return *shift }
