// A peer's process, watched from outside.
#include "ablations/gpt2/watch.h"
#include "harness/machine/processor_time.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>

namespace peer_watch_test {

using namespace ablations;

Rung peer_rung() {
  return {.title = "PyTorch", .recipe = plain_recipe(), .status = Rung::Status::planned, .peer = "pytorch-eager"};
}

Record record_of_peer() {
  Record record;
  record.timing.warmup_steps = 1;
  record.timing.step_ms = {2.0, 1.0};
  record.workload.tokens_per_step = 8;
  record.environment.threads = 1;
  return record;
}

// A process that is busy on the first core that there is, beside its like. It stays there and has run when this
// returns: the kernel tells nothing of one that has not, and on a busy machine a new process waits its turn.
pid_t spin() {
  const pid_t process = ::fork();
  if (process == 0) {
    ::alarm(10);
    for (volatile int forever = 1; forever != 0;) {
    }
  }
  cpu_set_t allowed, one;
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (process < 0 || ::sched_setaffinity(process, sizeof one, &one) != 0) throw std::runtime_error("no rival");
  while (!harness::processor_time(process)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return process;
}

TEST(PeerWatch, SeesThatTheProcessorWasBusyWithSomethingElse) {
  if (!harness::processor_time()) GTEST_SKIP() << "this kernel does not count how long threads wait";
  const pid_t peer = spin(), rival = spin();
  PeerWatch watch(peer_rung());
  EXPECT_TRUE(watch.take("window begins " + std::to_string(peer)));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(watch.take("window ends"));
  for (const pid_t process : {peer, rival}) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  Record record = record_of_peer();
  watch.complete(record);
  EXPECT_GT(record.timing.processor_lost.value(), 0.25);
  ASSERT_EQ(record.flags.value().size(), 1U);
  EXPECT_TRUE(record.flags->front().starts_with("shared: the processor was busy")) << record.flags->front();
}

TEST(PeerWatch, SaysWhatItHasNotSeen) {
  PeerWatch watch(peer_rung());
  EXPECT_FALSE(watch.take("1 12"));
  EXPECT_TRUE(watch.take("window begins nowhere"));
  EXPECT_TRUE(watch.take("window ends"));
  Record record = record_of_peer();
  record.timing.allocator = AllocatorCalls{.allocations = 3};
  watch.complete(record);
  EXPECT_FALSE(record.timing.processor_lost.has_value());
  EXPECT_EQ(record.monitor.value().unavailable, "no step ran on a GPU");
  ASSERT_EQ(record.flags.value().size(), 1U);
  EXPECT_TRUE(record.flags->front().starts_with("memory: the allocator")) << record.flags->front();
}

TEST(PeerWatch, LeavesOurOwnRecordsAndFailedOnesAlone) {
  Rung ours = peer_rung();
  ours.peer = "";
  Record record = record_of_peer(), failed = record_of_peer();
  failed.status = RunStatus::failed;
  PeerWatch(ours).complete(record);
  PeerWatch(peer_rung()).complete(failed);
  for (const Record& alone : {record, failed}) {
    EXPECT_FALSE(alone.monitor || alone.flags || alone.timing.processor_lost);
  }
}

}  // namespace peer_watch_test
