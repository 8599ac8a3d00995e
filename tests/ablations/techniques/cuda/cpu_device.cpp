#include "tests/ablations/techniques/cuda/cpu_device.h"

#include <ucontext.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cpu_device {
namespace {

constexpr int warp_size = 32, most_threads = 1024;
constexpr size_t stack_bytes = size_t{64} << 10;

enum class State { ready, at_barrier, at_shuffle, finished };

struct Copy {
  Element<int4> to;
  const void* from;
};

// Five words of the processor's state, as the compiler's setjmp wants them.
using Place = std::array<void*, 5>;

struct Fiber {
  std::unique_ptr<char[]> stack;
  ucontext_t start{};  // where it begins; from then on it is resumed at `place`
  bool started = false;
  Place place{};
  State state = State::ready;
  std::source_location site;  // where it waits
  uint32_t bits = 0;          // what it hands over in a shuffle
  int lane_mask = 0;
  std::vector<Copy> copies;  // begun
};

struct Device {
  std::deque<Fiber> fibers;  // stay where they are: a ucontext_t points into itself
  Place scheduler{};
  int thread = 0;  // the one that runs
  const std::function<void()>* body = nullptr;
  const char* kernel = "";
  std::string fault;
  uint64_t now = 1, block_began = 1;
  int shared_bytes = 0;  // dynamic
};

alignas(16) std::array<unsigned char, most_shared_bytes> shared;
std::array<Watch, most_shared_bytes / 2> shared_watches;
Order order = Order::ascending;
Device device;

// ucontext makes a fiber's stack. Its own switch asks the kernel for the signal mask each time; the compiler's setjmp
// and longjmp do not. The two have to be in different functions.
[[gnu::noinline, noreturn]] void jump(Place& to) { __builtin_longjmp(to.data(), 1); }

[[gnu::noinline]] void switch_places(Place& from, Place& to) {
  if (__builtin_setjmp(from.data()) == 0) jump(to);
}

[[gnu::noinline]] void start(Place& from, const ucontext_t& fiber) {
  if (__builtin_setjmp(from.data()) == 0) setcontext(&fiber);
}

Fiber& current() { return device.fibers[static_cast<size_t>(device.thread)]; }

void wait(State state) {
  current().state = state;
  switch_places(current().place, device.scheduler);
}

// A fiber lives from launch to launch.
void fiber_main() {
  while (true) {
    (*device.body)();
    if (!current().copies.empty()) fault("ends before its copies to shared memory");
    wait(State::finished);
  }
}

void make_fibers(int threads) {
  for (auto i = device.fibers.size(); i < static_cast<size_t>(threads); ++i) {
    Fiber& fiber = device.fibers.emplace_back();
    fiber.stack.reset(new char[stack_bytes]);  // not filled: what is not used takes no memory
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = stack_bytes;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, fiber_main, 0);
  }
}

void resume(int thread) {
  device.thread = thread;
  threadIdx = {static_cast<unsigned>(thread), 0, 0};
  Fiber& fiber = current();
  if (fiber.started) {
    switch_places(device.scheduler, fiber.place);
  } else {
    fiber.started = true;
    start(device.scheduler, fiber.start);
  }
}

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::string_view(a.file_name()) == b.file_name();
}

std::string name(const std::source_location& site) {
  const std::string_view path = site.file_name();
  return std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(site.line());
}

std::string where() {
  return std::string(device.kernel) + ", block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) +
         "): ";
}

[[noreturn]] void end_launch(const std::string& what) {
  const std::string whole = where() + what;
  device.fibers.clear();  // they stand in the middle of the kernel
  device.fault.clear();
  throw Fault(whole);
}

std::string doing(int thread) {
  const Fiber& fiber = device.fibers[static_cast<size_t>(thread)];
  const std::string who = "thread " + std::to_string(thread);
  switch (fiber.state) {
    case State::at_barrier:
      return who + " waits for the block at the barrier in " + name(fiber.site);
    case State::at_shuffle:
      return who + " waits for its warp at the shuffle in " + name(fiber.site);
    default:
      return who + " has ended";
  }
}

// In the same way, at the same place.
bool waits_with(const Fiber& a, const Fiber& b) {
  return a.state == b.state && same(a.site, b.site) && a.lane_mask == b.lane_mask;
}

// All threads of [begin, end) are in this state together.
bool together(int begin, int end, State state) {
  const Fiber& first = device.fibers[static_cast<size_t>(begin)];
  if (first.state != state) return false;
  for (int i = begin + 1; i < end; ++i) {
    if (!waits_with(device.fibers[static_cast<size_t>(i)], first)) return false;
  }
  return true;
}

void make_ready(int begin, int end) {
  for (int i = begin; i < end; ++i) device.fibers[static_cast<size_t>(i)].state = State::ready;
}

bool release_warps(int threads) {
  bool any = false;
  for (int begin = 0; begin < threads; begin += warp_size) {
    if (!together(begin, begin + warp_size, State::at_shuffle)) continue;
    std::array<uint32_t, warp_size> bits{};
    for (int i = 0; i < warp_size; ++i)
      bits[static_cast<size_t>(i)] = device.fibers[static_cast<size_t>(begin + i)].bits;
    for (int i = 0; i < warp_size; ++i) {
      Fiber& fiber = device.fibers[static_cast<size_t>(begin + i)];
      fiber.bits = bits[static_cast<size_t>(i ^ fiber.lane_mask)];
    }
    make_ready(begin, begin + warp_size);
    any = true;
  }
  return any;
}

bool release_block(int threads) {
  if (!together(0, threads, State::at_barrier)) return false;
  make_ready(0, threads);
  ++device.now;
  return true;
}

// A thread that waits, and one that does not come; nothing where all have ended.
std::string deadlock(int threads) {
  const auto fiber = [](int thread) -> const Fiber& { return device.fibers[static_cast<size_t>(thread)]; };
  int first = 0;
  while (first < threads && fiber(first).state == State::finished) ++first;
  if (first == threads) return "";
  const bool in_warp = fiber(first).state == State::at_shuffle;
  const int begin = in_warp ? first / warp_size * warp_size : 0, end = in_warp ? begin + warp_size : threads;
  for (int other = begin; other < end; ++other) {
    if (!waits_with(fiber(other), fiber(first))) return doing(first) + ", but " + doing(other);
  }
  return doing(first);
}

void run_block(int threads) {
  device.block_began = ++device.now;
  make_ready(0, threads);
  do {
    for (int i = 0; i < threads; ++i) {
      const int thread = order == Order::ascending ? i : threads - 1 - i;
      if (device.fibers[static_cast<size_t>(thread)].state != State::ready) continue;
      resume(thread);
      if (!device.fault.empty()) end_launch(device.fault);
    }
  } while (release_warps(threads) || release_block(threads));
  if (const std::string stuck = deadlock(threads); !stuck.empty()) end_launch(stuck);
}

}  // namespace

OrderScope::OrderScope(Order wanted) : before_(order) { order = wanted; }
OrderScope::~OrderScope() { order = before_; }

void run(const char* kernel, dim3 grid, int threads, int shared_bytes, const std::function<void()>& body) {
  device.kernel = kernel;
  if (threads <= 0 || threads > most_threads || threads % warp_size != 0)
    throw Fault(std::string(kernel) + ": a block of " + std::to_string(threads) + " threads");
  if (grid.x == 0 || grid.y == 0 || grid.z != 1 || grid.x > 2147483647U || grid.y > 65535U)
    throw Fault(std::string(kernel) + ": a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                std::to_string(grid.z) + " blocks");
  if (shared_bytes < 0 || shared_bytes > most_shared_bytes)
    throw Fault(std::string(kernel) + ": a block of " + std::to_string(shared_bytes) + " bytes of shared memory");
  make_fibers(threads);
  device.body = &body;
  device.shared_bytes = shared_bytes;
  blockDim = dim3(static_cast<unsigned>(threads));
  gridDim = grid;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      const bool up = order == Order::ascending;
      blockIdx = {up ? x : grid.x - 1 - x, up ? y : grid.y - 1 - y, 0};
      run_block(threads);
    }
  }
}

void fault(const std::string& what) {
  device.fault = "thread " + std::to_string(device.thread) + ": " + what;
  jump(device.scheduler);
}

DynamicBytes dynamic_bytes(int begin, size_t count) {
  if (begin < 0 || begin + static_cast<int>(count) > device.shared_bytes)
    fault("byte " + std::to_string(begin) + " of " + std::to_string(device.shared_bytes) +
          " bytes of dynamic shared memory");
  unsigned char* const bytes = shared.data() + begin;
  if (count == sizeof(int4)) expect_aligned(bytes);
  return {bytes, shared_watches.data() + begin / 2};
}

void begin_copy(Element<int4> to, const void* from) {
  to = int4{-1, -1, -1, -1};
  current().copies.push_back({to, from});
}

void wait_for_copies() {
  for (Copy& copy : current().copies) {
    int4 bits;
    std::memcpy(&bits, copy.from, sizeof bits);
    copy.to = bits;
  }
  current().copies.clear();
}

void barrier(std::source_location site) {
  current().site = site;
  current().lane_mask = 0;
  wait(State::at_barrier);
}

uint32_t exchange(uint32_t bits, int lane_mask, std::source_location site) {
  if (lane_mask < 0 || lane_mask >= warp_size) fault("a shuffle with lane " + std::to_string(lane_mask));
  current().site = site;
  current().bits = bits;
  current().lane_mask = lane_mask;
  wait(State::at_shuffle);
  return current().bits;
}

namespace {

[[noreturn]] void race(const char* does, int element, int other, const char* did) {
  fault(std::string(does) + " shared element " + std::to_string(element) + ", which thread " + std::to_string(other) +
        " " + did + " with no barrier between");
}

}  // namespace

void Watch::on_read(int element) {
  if (written_ < device.block_began)
    fault("reads shared element " + std::to_string(element) + ", which nobody has written");
  if (written_ == device.now && writer_ != device.thread) race("reads", element, writer_, "wrote");
  several_readers_ = read_ == device.now && (several_readers_ || reader_ != device.thread);
  read_ = device.now;
  reader_ = device.thread;
}

void Watch::on_write(int element) {
  if (written_ == device.now && writer_ != device.thread) race("writes", element, writer_, "wrote");
  if (read_ == device.now && (several_readers_ || reader_ != device.thread)) race("writes", element, reader_, "read");
  written_ = device.now;
  writer_ = device.thread;
}

}  // namespace cpu_device
