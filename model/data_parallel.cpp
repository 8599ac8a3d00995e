// USE_C10D_GLOO and USE_C10D_NCCL: what LibTorch's libraries were built with; its headers ask for it.
#define USE_C10D_GLOO
#if LADDER_NCCL
#define USE_C10D_NCCL
#endif

#include "model/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#if LADDER_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <thread>

namespace model {

using at::Tensor;

struct DataParallel::Group {
  c10::intrusive_ptr<c10d::ProcessGroup> processes;
  std::unique_ptr<c10d::Reducer> reducer;
};

namespace {

using Processes = c10::intrusive_ptr<c10d::ProcessGroup>;

// Buckets as in PyTorch's DistributedDataParallel. The first one to be complete is small, so its reduction begins
// early.
constexpr size_t first_bucket_bytes = c10d::kDefaultFirstBucketBytes, bucket_bytes = c10d::kDefaultBucketBytesCap;

// Without c10's stack trace, and without the "[file:line] " that Gloo begins with.
std::string first_line(const std::exception& error) {
  const auto* const of_c10 = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_c10 != nullptr ? of_c10->what_without_backtrace() : error.what();
  text.resize(std::min(text.size(), text.find('\n')));
  const size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

LostRank lost_rank(const Ranks& ranks, const std::string& why) {
  return LostRank(
      fmt::format("rank {} of {} has lost another rank, which has ended or has not answered for {} s "
                  "(LADDER_RANK_TIMEOUT): {}",
                  ranks.rank, ranks.size, ranks.timeout.count(), why));
}

// Calls what needs the other ranks. The classes of Gloo's errors are in its headers, which are missing. But each error
// names the file of Gloo's that it comes from.
template <class Work>
auto with_others(const Ranks& ranks, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    // DistBackendError may also be a fault of this machine, which says more by itself.
    const bool is_of_c10d = dynamic_cast<const c10::DistNetworkError*>(&error) != nullptr ||
                            dynamic_cast<const c10::DistStoreError*>(&error) != nullptr;
    if (!is_of_c10d && std::string_view(error.what()).find("/gloo/") == std::string_view::npos) throw;
    throw lost_rank(ranks, first_line(error));
  }
}

c10::intrusive_ptr<c10d::Store> store_of(const Ranks& ranks) {
  c10d::TCPStoreOptions options;
  options.port = ranks.port;
  options.isServer = ranks.is_first() && !ranks.has_agent;
  options.numWorkers = static_cast<size_t>(ranks.size);
  options.timeout = 2 * ranks.timeout;  // some ranks begin later than others
  try {
    return c10::make_intrusive<c10d::TCPStore>(ranks.address, options);
  } catch (const c10::DistError& error) {
    throw LostRank(fmt::format("rank {} of {} did not find all others at {}:{} within {} s: {}", ranks.rank, ranks.size,
                               ranks.address, ranks.port, 2 * ranks.timeout.count(), first_line(error)));
  }
}

std::vector<std::string> lines_without(std::vector<std::string> lines, const std::vector<std::string>& others) {
  std::erase_if(lines, [&](const std::string& line) { return std::ranges::find(others, line) != others.end(); });
  return lines;
}

void check_same_work(c10d::Store& store, const Ranks& ranks, const std::vector<std::string>& work) {
  if (ranks.is_first()) {
    const std::string text = fmt::format("{}", fmt::join(work, "\n"));
    store.set("work", std::vector<uint8_t>(text.begin(), text.end()));
    return;
  }
  const std::vector<uint8_t> bytes = store.get("work");
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> first;
  for (std::string line; std::getline(text, line);) first.push_back(line);
  if (first == work) return;
  throw std::invalid_argument(fmt::format("rank {} has other work than rank 0: {}; rank 0: {}", ranks.rank,
                                          fmt::join(lines_without(work, first), ", "),
                                          fmt::join(lines_without(first, work), ", ")));
}

c10::intrusive_ptr<c10d::Backend> gloo_of(const c10::intrusive_ptr<c10d::Store>& store, const Ranks& ranks) {
  const auto options = c10d::ProcessGroupGloo::Options::create_default(ranks.timeout);
  if (const char* const interface = std::getenv("GLOO_SOCKET_IFNAME")) {  // as in Python
    options->devices = {c10d::ProcessGroupGloo::createDeviceForInterface(interface)};
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                                     static_cast<int>(ranks.rank), static_cast<int>(ranks.size),
                                                     options);
}

#if LADDER_NCCL
c10::intrusive_ptr<c10d::Backend> nccl_of(const c10::intrusive_ptr<c10d::Store>& store, const Ranks& ranks) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = 2 * ranks.timeout;  // wait_for() throws before NCCL's watchdog ends the process
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("nccl", store),
                                                     static_cast<int>(ranks.rank), static_cast<int>(ranks.size),
                                                     options);
}
#else
c10::intrusive_ptr<c10d::Backend> nccl_of(const c10::intrusive_ptr<c10d::Store>&, const Ranks&) {
  throw std::runtime_error(
      "data_parallel ddp on a GPU needs NCCL, and this program was built without its header nccl.h (the Python package "
      "nvidia-nccl-cu13 has it)");
}
#endif

// Gloo for tensors on the CPU, also beside a GPU: it does not make the host wait for the device.
Processes processes_of(const Ranks& ranks, const std::vector<std::string>& work, at::Device device) {
  const c10::intrusive_ptr<c10d::Store> store = store_of(ranks);
  return with_others(ranks, [&] {
    check_same_work(*store, ranks, work);
    auto processes =
        c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(ranks.rank), static_cast<int>(ranks.size));
    processes->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, gloo_of(store, ranks));
    processes->setDefaultBackend(c10d::ProcessGroup::GLOO);
    if (device.is_cuda()) {
      processes->setBackend(at::kCUDA, c10d::ProcessGroup::NCCL, nccl_of(store, ranks));
      processes->setDefaultBackend(c10d::ProcessGroup::NCCL);
    }
    return processes;
  });
}

std::unique_ptr<c10d::Reducer> reducer_of(const Processes& processes, const std::vector<Tensor>& parameters) {
  std::vector<std::vector<size_t>> buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {first_bucket_bytes, bucket_bytes}));
  std::ranges::reverse(buckets);  // gradients are ready from the last layer to the first
  return std::make_unique<c10d::Reducer>(
      parameters, std::move(buckets), processes, std::vector<bool>(parameters.size(), false), bucket_bytes,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true, std::unordered_map<size_t, std::string>{},
      first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
}

}  // namespace

DataParallel::DataParallel(const Ranks& ranks, const std::vector<Parameter>& parameters, Gradients* gradients,
                           const std::vector<std::string>& work)
    : ranks_(ranks), gradients_(gradients), group_(std::make_unique<Group>()) {
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  group_->processes = processes_of(ranks, work, tensors.front().device());
  if (ranks.size > 1) {
    with_others(ranks, [&] { c10d::verify_params_across_processes(group_->processes, tensors, std::nullopt); });
  }
  if (gradients == nullptr) group_->reducer = reducer_of(group_->processes, tensors);
}

DataParallel::~DataParallel() = default;

void DataParallel::copy_from_first(const std::vector<Tensor>& tensors) {
  constexpr size_t at_a_time = 250 << 20;  // bytes, as DistributedDataParallel has it
  const at::NoGradGuard no_grad;
  std::vector<Tensor> values;
  for (const Tensor& tensor : tensors) {
    // NCCL knows no int16.
    values.push_back(tensor.scalar_type() == at::kShort ? tensor.view(at::kByte) : tensor.detach());
  }
  with_others(ranks_, [&] { c10d::broadcast_coalesced(group_->processes, values, at_a_time, /*rank=*/0); });
}

Tensor DataParallel::backward(const Tensor& loss, const Tensor& values) {
  return with_others(ranks_, [&] {
    if (gradients_ == nullptr) {
      group_->reducer->rebuild_buckets();  // once: in the order in which gradients were seen to be ready
      group_->reducer->prepare_for_backward({});
      loss.backward();
      return mean(values);
    }
    std::vector<c10::intrusive_ptr<c10d::Work>> reductions;
    gradients_->values().copy_(values);
    gradients_->backward(loss, [&](const Tensor& chunk) {
      std::vector<Tensor> one{chunk};
      reductions.push_back(group_->processes->allreduce(one));
    });
    for (const auto& reduction : reductions) reduction->wait();  // on a GPU the stream waits, not the host
    return gradients_->values();
  });
}

Tensor DataParallel::mean(const Tensor& tensor) {
  return with_others(ranks_, [&] {
    std::vector<Tensor> one{tensor.detach() / ranks_.size};
    group_->processes->allreduce(one)->wait();
    return one.front();
  });
}

void DataParallel::wait_for_ranks() {
  with_others(ranks_, [&] {
    std::vector<Tensor> one{at::zeros({1})};
    group_->processes->allreduce(one)->wait();
  });
}

void DataParallel::wait_for(const c10::cuda::CUDAEvent& event) const {
  const auto end = std::chrono::steady_clock::now() + ranks_.timeout;
  while (!event.query()) {
    if (std::chrono::steady_clock::now() > end) {
      group_->processes->abort();  // else the GPU would wait for the other rank for ever
      throw lost_rank(ranks_, "the GPU still waits for it");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace model
