#include "files/printable.h"
#include "harness/gpu/cupti.h"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_map>

namespace harness {
namespace {

std::string demangled(const char* name) {
  if (name == nullptr) return "?";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? text.get() : name;
}

const char* copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "device to device";
    default:
      return "copy";
  }
}

// An activity whose label is still to be found, by its graph node or by its correlation.
struct Raw {
  Activity activity;
  uint64_t graph_node = 0;
};

// CUPTI's callbacks are plain functions, so they write to global data.
struct Session {
  std::mutex mutex;
  std::vector<Raw> raw;
  std::unordered_map<uint64_t, int> label_of_call;  // by correlation
  std::unordered_map<uint64_t, int> label_of_node;  // by graph node
  size_t dropped = 0;                               // records that CUPTI had no room for
  std::string failure;                              // of a callback, which cannot throw
};

Session& session() {
  static Session instance;
  return instance;
}

constexpr size_t buffer_bytes = size_t{16} << 20;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;  // as many as fit
}

template <class Record>
Raw device_activity(const Record& record, Activity::Kind kind, std::string&& name, int64_t bytes) {
  return {.activity = {.kind = kind,
                       .name = std::move(name),
                       .label = {},
                       .begin_ns = static_cast<int64_t>(record.start),
                       .end_ns = static_cast<int64_t>(record.end),
                       .lane = record.streamId,
                       .correlation = record.correlationId,
                       .bytes = bytes,
                       .in_graph = record.graphNodeId != 0},
          .graph_node = record.graphNodeId};
}

std::optional<Raw> read(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      return device_activity(kernel, Activity::Kind::kernel, demangled(kernel.name), 0);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      return device_activity(copy, Activity::Kind::copy, copy_name(copy.copyKind), static_cast<int64_t>(copy.bytes));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      return device_activity(set, Activity::Kind::set, "memset", static_cast<int64_t>(set.bytes));
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& call = *reinterpret_cast<const CUpti_ActivityAPI*>(record);
      const char* name = nullptr;
      const auto domain =
          record->kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
      if (cuptiGetCallbackName(domain, call.cbid, &name) != CUPTI_SUCCESS || name == nullptr) name = "?";
      // "cudaLaunchKernel_v7000"
      const std::string full(name);
      return Raw{.activity = {.kind = Activity::Kind::call,
                              .name = full.substr(0, full.find("_v")),
                              .label = {},
                              .begin_ns = static_cast<int64_t>(call.start),
                              .end_ns = static_cast<int64_t>(call.end),
                              .lane = call.threadId,
                              .correlation = call.correlationId}};
    }
    default:
      return std::nullopt;
  }
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  const std::unique_ptr<uint8_t, decltype(&std::free)> owner(buffer, std::free);
  std::vector<Raw> found;
  std::string failure;
  CUpti_Activity* record = nullptr;
  CUptiResult end = CUPTI_ERROR_MAX_LIMIT_REACHED;  // an empty buffer has none
  while (valid_bytes > 0 && (end = cuptiActivityGetNextRecord(buffer, valid_bytes, &record)) == CUPTI_SUCCESS) {
    auto raw = read(record);
    if (!raw) continue;
    found.push_back(std::move(*raw));
  }
  if (end != CUPTI_ERROR_MAX_LIMIT_REACHED)
    failure = fmt::format("CUPTI's records cannot be read (result {})", int{end});
  size_t dropped = 0;  // since it was last asked
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) != CUPTI_SUCCESS) dropped = 0;
  // The lock is held only here: CUPTI may hold its own lock now, for which a thread in on_traced_call waits.
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  std::ranges::move(found, std::back_inserter(s.raw));
  s.dropped += dropped;
  if (!failure.empty()) s.failure = failure;
}

// Labels at the time of the call, on the thread that makes it: a launch by its correlation, a captured one by its node.
void CUPTIAPI on_traced_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  Session& s = session();
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    if (call->callbackSite != CUPTI_API_ENTER || Labels::current() == 0) return;
    const std::lock_guard lock(s.mutex);
    s.label_of_call[call->correlationId] = Labels::current();
    return;
  }
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  if (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED && id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) return;
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  const bool cloned = id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
  uint64_t node = 0, original = 0;
  if (cuptiGetGraphNodeId(graph->node, &node) != CUPTI_SUCCESS) return;
  if (cloned && cuptiGetGraphNodeId(graph->originalNode, &original) != CUPTI_SUCCESS) return;
  const std::lock_guard lock(s.mutex);
  if (!cloned) {
    // Instantiating a graph clones its nodes, and also reports each clone as created, before or after.
    s.label_of_node.try_emplace(node, Labels::current());
  } else if (const auto known = s.label_of_node.find(original); known != s.label_of_node.end()) {
    s.label_of_node[node] = known->second;
  }
}

// Switches everything on, and off again however the function ends.
class Tracing {
 public:
  Tracing() = default;
  void start() {  // not in the constructor, so that the destructor also undoes a start that throws
    subscriber_.emplace(on_traced_call, nullptr);
    check_cupti("cuptiActivityRegisterCallbacks", cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
    subscriber_->enable_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
    subscriber_->enable_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
    for (const CUpti_ActivityKind kind : kinds) check_cupti("cuptiActivityEnable", cuptiActivityEnable(kind));
  }
  ~Tracing() {
    for (const CUpti_ActivityKind kind : kinds) cuptiActivityDisable(kind);
  }
  Tracing(const Tracing&) = delete;  // CUPTI has one place
  Tracing& operator=(const Tracing&) = delete;

  static void flush() {
    check_cupti("cuptiActivityFlushAll", cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    // Records dropped after the last buffer, or because there was none, were not reported to take_buffer.
    size_t dropped = 0;
    check_cupti("cuptiActivityGetNumDroppedRecords", cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    const std::lock_guard lock(session().mutex);
    session().dropped += dropped;
  }

 private:
  // Never KIND_KERNEL, which makes kernels run one after another.
  static constexpr std::array kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                    CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
                                    CUPTI_ACTIVITY_KIND_DRIVER};
  std::optional<CuptiSubscriber> subscriber_;
};

// Counts all records that cannot be used: one bad record and only bad records have different causes.
class Faults {
 public:
  void add(const char* what, const Activity& activity) {
    if (count_++ > 0) return;
    first_ = fmt::format("CUPTI {} {}: {} to {} ns", what, files::shortened(activity.name, 60), activity.begin_ns,
                         activity.end_ns);
  }
  void check(size_t records) const {
    if (count_ > 0) throw std::runtime_error(fmt::format("{} ({} of {} records)", first_, count_, records));
  }

 private:
  size_t count_ = 0;
  std::string first_;
};

int64_t cupti_now_ns() {
  uint64_t now = 0;
  check_cupti("cuptiGetTimestamp", cuptiGetTimestamp(&now));
  return static_cast<int64_t>(now);
}

}  // namespace

Trace trace_device(const Labels& labels, const std::function<void()>& prepare, int64_t steps,
                   const std::function<void()>& step) {
  static bool used = false;
  if (used) throw std::logic_error("trace_device: a process has one session");
  used = true;
  Trace trace{.activities = {}, .steps = steps};
  std::vector<int64_t> begins;  // of the steps
  // Work that is still running would have records without a label.
  check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
  {
    Tracing tracing;
    tracing.start();
    prepare();
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
    trace.begin_ns = cupti_now_ns();
    for (int64_t i = 0; i < steps; ++i) {
      begins.push_back(cupti_now_ns());
      step();
    }
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
    trace.end_ns = cupti_now_ns();
    Tracing::flush();
  }
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  if (!s.failure.empty()) throw std::runtime_error(s.failure);
  if (s.dropped > 0) throw std::runtime_error(fmt::format("CUPTI dropped {} records", s.dropped));
  // The host runs ahead of the device: a kernel belongs to the step whose code launched it.
  std::unordered_map<uint64_t, int64_t> asked_ns;  // by correlation
  for (const Raw& raw : s.raw) {
    if (raw.activity.kind == Activity::Kind::call && raw.activity.begin_ns != 0) {
      asked_ns[raw.activity.correlation] = raw.activity.begin_ns;
    }
  }
  Faults faults;
  for (Raw& raw : s.raw) {
    Activity& activity = raw.activity;
    const auto asked = asked_ns.find(activity.correlation);
    // The device's times are converted to the host's clock, but not exactly: the call's own time decides its step.
    const int64_t when = asked == asked_ns.end() ? activity.begin_ns : asked->second;
    const bool untimed = activity.begin_ns == 0 || activity.end_ns < activity.begin_ns;  // 0: CUPTI gave no time
    if (when != 0 && (when < trace.begin_ns || when > trace.end_ns)) continue;           // of `prepare`
    if (untimed) {
      faults.add("could not time", activity);
    } else if (activity.in_graph && asked == asked_ns.end()) {
      faults.add("does not name the graph launch of", activity);
    }
    const auto& known = raw.graph_node != 0 ? s.label_of_node : s.label_of_call;
    const auto found = known.find(raw.graph_node != 0 ? raw.graph_node : activity.correlation);
    if (found != known.end()) activity.label = labels.at(found->second);
    activity.step = std::max<int64_t>(0, std::ranges::upper_bound(begins, when) - begins.begin() - 1);
    trace.activities.push_back(std::move(activity));
  }
  faults.check(trace.activities.size());
  s.raw.clear();
  std::ranges::stable_sort(trace.activities, {}, &Activity::begin_ns);
  return trace;
}

}  // namespace harness
