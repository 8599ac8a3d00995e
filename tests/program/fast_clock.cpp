// Preloaded into a ladder program, makes its time pass faster: everything takes FAST_CLOCK times as long as it did, as
// far as that program can tell. That is how tests make a program slower or faster by a known factor.
#include <dlfcn.h>
#include <time.h>

#include <cstdlib>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const char* factor_text = std::getenv("FAST_CLOCK");
  static const double factor = factor_text == nullptr ? 1 : std::atof(factor_text);
  const int result = real(clock, time);
  if (result != 0 || clock != CLOCK_MONOTONIC) return result;
  static const timespec start = *time;
  const double passed =
      static_cast<double>(time->tv_sec - start.tv_sec) + 1e-9 * static_cast<double>(time->tv_nsec - start.tv_nsec);
  const double shown = passed * factor;
  time->tv_sec = start.tv_sec + static_cast<time_t>(shown);
  const double rest = shown - static_cast<double>(static_cast<time_t>(shown));
  time->tv_nsec = start.tv_nsec + static_cast<long>(rest * 1e9);
  if (time->tv_nsec >= 1000000000) {
    time->tv_nsec -= 1000000000;
    ++time->tv_sec;
  }
  return result;
}
