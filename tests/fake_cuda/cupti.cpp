// CUPTI's callbacks and activity, fed by the calls and the work of this device. FAKE_CUPTI asks for what a tracer must
// bear, and each flush then says on standard error that it was done:
//   dropped   five records are lost, two before the first buffer is handed over and three after the last
//   unknown   each record follows one of a kind that nobody enabled
//   reversed  the kernels' records come in the opposite order of time
//   untimed   the kernels' records say neither when they began nor when they ended
// or, without a word, for one that another tool has:
//   taken     there may be no further subscriber
#include "fake_cuda/device.h"

#include <cupti.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace fake_cuda {
namespace {

struct Listener {
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  bool domains[CUPTI_CB_DOMAIN_SIZE] = {};
  bool resources[CUPTI_CBID_RESOURCE_SIZE] = {};
  bool kinds[CUPTI_ACTIVITY_KIND_COUNT] = {};
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::vector<std::string> records;  // in CUPTI's own layout
  size_t dropped = 0;                // since it was last asked
};

Listener& listener() {
  static auto* one = new Listener;
  return *one;
}

std::atomic<uint32_t> correlations{0};

template <class Record>
void keep(const Record& record) {
  listener().records.emplace_back(reinterpret_cast<const char*>(&record), sizeof record);
}

size_t size_of(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    default:
      return sizeof(CUpti_ActivityAPI);
  }
}

void mix_unknown(std::vector<std::string>& records) {
  CUpti_ActivitySynchronization2 unknown{};
  unknown.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  std::vector<std::string> mixed;
  for (std::string& record : records) {
    mixed.emplace_back(reinterpret_cast<const char*>(&unknown), sizeof unknown);
    mixed.push_back(std::move(record));
  }
  records.swap(mixed);
}

std::vector<std::string*> kernels_of(std::vector<std::string>& records) {
  std::vector<std::string*> kernels;
  for (std::string& record : records) {
    const auto* activity = reinterpret_cast<const CUpti_Activity*>(record.data());
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) kernels.push_back(&record);
  }
  return kernels;
}

void reverse_kernels(std::vector<std::string>& records) {
  const std::vector<std::string*> kernels = kernels_of(records);
  for (size_t i = 0; i < kernels.size() / 2; ++i) kernels[i]->swap(*kernels[kernels.size() - 1 - i]);
}

// What FAKE_CUPTI asks for, done to the records of a flush. Returns how many are lost after the last buffer.
size_t disturb(std::vector<std::string>& records) {
  const char* asked = std::getenv("FAKE_CUPTI");
  if (asked == nullptr || records.empty()) return 0;
  const std::string_view what(asked);
  size_t lost_last = 0;
  if (what == "dropped") {
    const size_t lost_first = std::min<size_t>(2, records.size());
    records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(lost_first));
    listener().dropped += lost_first;
    lost_last = std::min<size_t>(3, records.size());
    records.resize(records.size() - lost_last);
  } else if (what == "unknown") {
    mix_unknown(records);
  } else if (what == "reversed") {
    reverse_kernels(records);
  } else if (what == "untimed") {
    for (std::string* kernel : kernels_of(records)) {
      auto* record = reinterpret_cast<CUpti_ActivityKernel10*>(kernel->data());
      record->start = record->end = 0;
    }
  } else {
    std::fprintf(stderr, "FAKE_CUPTI=%s: neither dropped nor unknown nor reversed nor untimed nor taken\n", asked);
    std::abort();
  }
  std::fprintf(stderr, "fake CUPTI: %s\n", asked);
  return lost_last;
}

// Names that cuptiGetCallbackName says, learnt from the calls.
std::unordered_map<uint32_t, const char*> names_of[2];

}  // namespace

Call::Call(bool of_runtime, const char* name, uint32_t callback_id)
    : of_runtime_(of_runtime), name_(name), callback_id_(callback_id), correlation_(++correlations) {
  tell(true);
  begin_ns_ = now_ns();
}

Call::~Call() {
  const CUpti_ActivityKind kind = of_runtime_ ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  if (listener().kinds[kind]) {
    CUpti_ActivityAPI record{};
    record.kind = kind;
    record.cbid = callback_id_;
    record.start = static_cast<uint64_t>(begin_ns_);
    record.end = static_cast<uint64_t>(now_ns());
    record.threadId = static_cast<uint32_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
    record.correlationId = correlation_;
    names_of[of_runtime_ ? 1 : 0][callback_id_] = name_;
    keep(record);
  }
  tell(false);
}

void Call::tell(bool enters) {
  const Listener& to = listener();
  const auto domain = of_runtime_ ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (to.callback == nullptr || !to.domains[domain]) return;
  CUpti_CallbackData data{};
  data.callbackSite = enters ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = name_;
  data.correlationId = correlation_;
  to.callback(to.user, domain, callback_id_, &data);
}

void tell_node(const Node& node, bool cloned) {
  const Listener& to = listener();
  if (to.callback == nullptr) return;
  Node original{.id = node.original};
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(const_cast<Node*>(&node));
  graph.originalNode = cloned ? reinterpret_cast<CUgraphNode>(&original) : nullptr;
  CUpti_ResourceData data{};
  data.resourceDescriptor = &graph;
  // An instantiation says of a node that it was cloned, and that it was created.
  if (cloned && to.resources[CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED]) {
    to.callback(to.user, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, &data);
  }
  if (to.resources[CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED]) {
    to.callback(to.user, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, &data);
  }
}

void record_work(const Work& work, int64_t begin_ns, uint32_t stream, uint32_t correlation, uint64_t node) {
  const auto keep_as = [&](auto record, CUpti_ActivityKind kind) {
    if (!listener().kinds[kind]) return;
    record.kind = kind;
    record.start = static_cast<uint64_t>(begin_ns);
    record.end = static_cast<uint64_t>(begin_ns + duration_ns(work));
    record.streamId = stream;
    record.correlationId = correlation;
    record.graphNodeId = node;
    if constexpr (requires { record.name; }) record.name = work.name;
    if constexpr (requires { record.bytes; }) record.bytes = work.bytes;
    if constexpr (requires { record.copyKind; }) {
      record.copyKind = work.direction == cudaMemcpyHostToDevice   ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                        : work.direction == cudaMemcpyDeviceToHost ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                                                   : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    }
    keep(record);
  };
  if (work.kind == Work::Kind::kernel) keep_as(CUpti_ActivityKernel10{}, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (work.kind == Work::Kind::copy) keep_as(CUpti_ActivityMemcpy6{}, CUPTI_ACTIVITY_KIND_MEMCPY);
  if (work.kind == Work::Kind::set) keep_as(CUpti_ActivityMemset4{}, CUPTI_ACTIVITY_KIND_MEMSET);
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) {
  const std::lock_guard lock(fake_cuda::mutex());
  const char* asked = std::getenv("FAKE_CUPTI");
  if (listener().callback != nullptr || (asked != nullptr && std::string_view(asked) == "taken")) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  listener().callback = callback;
  listener().user = user;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&listener());
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  const std::lock_guard lock(fake_cuda::mutex());
  listener().callback = nullptr;
  for (bool& domain : listener().domains) domain = false;
  for (bool& resource : listener().resources) resource = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
  const std::lock_guard lock(fake_cuda::mutex());
  listener().domains[domain] = enable != 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  const std::lock_guard lock(fake_cuda::mutex());
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return CUPTI_ERROR_INVALID_PARAMETER;
  listener().resources[id] = enable != 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  const std::lock_guard lock(fake_cuda::mutex());
  const auto& names = names_of[domain == CUPTI_CB_DOMAIN_RUNTIME_API ? 1 : 0];
  const auto found = names.find(id);
  if (found == names.end()) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = found->second;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  *id = reinterpret_cast<const Node*>(node)->id;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = static_cast<uint64_t>(now_ns());
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  listener().request = request;
  listener().complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(fake_cuda::mutex());
  listener().kinds[kind] = true;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(fake_cuda::mutex());
  listener().kinds[kind] = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  std::vector<std::string> records;
  size_t lost_last = 0;
  {
    const std::lock_guard lock(fake_cuda::mutex());
    records.swap(listener().records);
    lost_last = disturb(records);
  }
  for (size_t next = 0; next < records.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0, used = 0;
    listener().request(&buffer, &size, &most);
    if (buffer == nullptr) return CUPTI_ERROR_OUT_OF_MEMORY;
    for (; next < records.size() && used + records[next].size() <= size; ++next) {
      std::ranges::copy(records[next], buffer + used);
      used += records[next].size();
    }
    listener().complete(nullptr, 0, buffer, size, used);
  }
  const std::lock_guard lock(fake_cuda::mutex());
  listener().dropped += lost_last;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  uint8_t* const next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + size_of(*record);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  const std::lock_guard lock(fake_cuda::mutex());
  *dropped = std::exchange(listener().dropped, 0);
  return CUPTI_SUCCESS;
}

}  // extern "C"
