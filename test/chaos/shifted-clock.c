// Preloaded: moves the wall clock by the seconds in a shared file, which may change at any time. Timers, monotonic time
// and waiting stay. libfaketime is not used, because PostgreSQL's timeouts do not fire under it: a signal handler that
// interrupts a wait is given the machine's time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none = 0;
static const volatile int64_t *shift = &none;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("TEST_CLOCK_SHIFT_FILE");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) {
    shift = mapped;
  }
  if (file >= 0) {
    close(file);
  }
}

int clock_gettime(clockid_t id, struct timespec *at) {
  long result = syscall(SYS_clock_gettime, id, at);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    at->tv_sec += *shift;
  }
  return (int)result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) {
    return -1;
  }
  at->tv_sec = exact.tv_sec;
  at->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (at != NULL) {
    *at = exact.tv_sec;
  }
  return exact.tv_sec;
}
