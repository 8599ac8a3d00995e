#include "harness/observe/labels.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <nvtx3/nvtx3.hpp>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

namespace harness {
namespace {

struct NvtxDomain {
  static constexpr char const* name{"gpt2-ladder"};
};

void push_range(const char* text) {
  const nvtx3::event_attributes attributes{text};
  nvtxDomainRangePushEx(nvtx3::domain::get<NvtxDomain>(), attributes.get());
}

void pop_range() { nvtxDomainRangePop(nvtx3::domain::get<NvtxDomain>()); }

// Callbacks are plain functions, so they read global data.
struct KnownLabels {
  std::mutex mutex;
  bool active = false;
  std::vector<Label> labels{Label{}};
  std::map<Label, int> ids{{Label{}, 0}};
  std::unordered_map<int64_t, int> by_sequence;  // of the step's forward operations

  int id_of(const Label& label) {
    const auto [found, is_new] = ids.try_emplace(label, static_cast<int>(labels.size()));
    if (is_new) labels.push_back(label);
    return found->second;
  }
};

KnownLabels& known_labels() {
  static KnownLabels instance;
  return instance;
}

const char* layer_name(int64_t layer) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(128);
    for (int i = 0; i < 128; ++i) all.push_back(fmt::format("layer {}", i));
    return all;
  }();
  return names[std::min(static_cast<size_t>(layer), names.size() - 1)].c_str();
}

thread_local int current_label = 0;
thread_local bool in_backward = false;
thread_local int node_ranges = 0;  // NVTX ranges of backward nodes that are open on this thread

// The engine's evaluation of one node. After the node the engine sums its gradients over expanded dimensions and adds
// them to others. This work belongs to the node, too.
struct EvaluationContext : at::ObserverContext {
  int label_before = current_label;
  bool in_backward_before = in_backward;
  int ranges_before = node_ranges;
};

void enter_node(const at::RecordFunction& function) {
  const std::string_view name = function.name();  // "MmBackward0"
  Label label{.phase = "backward", .part = "", .layer = -1};
  {
    const std::lock_guard lock(known_labels().mutex);
    if (const auto forward = known_labels().by_sequence.find(function.seqNr());
        forward != known_labels().by_sequence.end()) {
      label.part = known_labels().labels[static_cast<size_t>(forward->second)].part;
      label.layer = known_labels().labels[static_cast<size_t>(forward->second)].layer;
    } else if (name.ends_with("AccumulateGrad")) {
      label.part = "accumulate_grad";
    }
    current_label = known_labels().id_of(label);
  }
  push_range((label.layer < 0 ? label.part : fmt::format("{} of layer {}", label.part, label.layer)).c_str());
  ++node_ranges;
}

std::unique_ptr<at::ObserverContext> on_function_start(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    if (in_backward) enter_node(function);
    return nullptr;
  }
  if (std::string_view(function.name()).starts_with("autograd::engine::evaluate_function: ")) {
    auto context = std::make_unique<EvaluationContext>();
    in_backward = true;
    return context;
  }
  if (!in_backward && current_label != 0 && function.seqNr() >= 0) {
    const std::lock_guard lock(known_labels().mutex);
    known_labels().by_sequence[function.seqNr()] = current_label;
  }
  return nullptr;
}

void on_function_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* before = static_cast<EvaluationContext*>(context);
  for (; node_ranges > before->ranges_before; --node_ranges) pop_range();
  current_label = before->label_before;
  in_backward = before->in_backward_before;
}

}  // namespace

Labels::Labels(bool follow_autograd) : following_(follow_autograd) {
  {
    const std::lock_guard lock(known_labels().mutex);
    if (known_labels().active) throw std::logic_error("Labels: there are some already");
    known_labels().active = true;
    known_labels().by_sequence.clear();
  }
  if (following_) {
    callback_ = at::addGlobalCallback(at::RecordFunctionCallback(on_function_start, on_function_end)
                                          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
}

Labels::~Labels() {
  close_to(Level::nothing);
  current_label = 0;
  if (following_) at::removeCallback(callback_);
  const std::lock_guard lock(known_labels().mutex);
  known_labels().active = false;
}

void Labels::close_to(Level level) {
  while (!open_.empty() && open_.back() > level) {
    open_.pop_back();
    pop_range();
  }
}

void Labels::open(Level level, const char* text) {
  open_.push_back(level);
  push_range(text);
}

void Labels::begin_phase(std::string_view phase) {
  if (phase.empty()) {
    close_to(Level::nothing);
    current_label = 0;
    return;
  }
  if (open_.empty()) {
    open(Level::step, "step");
    if (following_) {
      const std::lock_guard lock(known_labels().mutex);
      known_labels().by_sequence.clear();
    }
  }
  close_to(Level::step);
  phase_ = phase;
  layer_ = -1;
  open(Level::phase, phase_.c_str());
  remember("");
}

void Labels::begin_part(int64_t layer, std::string_view part) {
  if (layer != layer_) {
    close_to(Level::phase);
    if (layer >= 0) open(Level::layer, layer_name(layer));
    layer_ = layer;
  }
  close_to(Level::layer);
  part_ = part;
  open(Level::part, part_.c_str());
  remember(part_);
}

void Labels::remember(const std::string& part) const {
  if (!following_) return;  // NVTX alone costs nanoseconds
  const std::lock_guard lock(known_labels().mutex);
  current_label = known_labels().id_of({.phase = phase_, .part = part, .layer = layer_});
}

int Labels::current() { return current_label; }

Label Labels::at(int id) const {
  const std::lock_guard lock(known_labels().mutex);
  return known_labels().labels.at(static_cast<size_t>(id));
}

bool nvtx_tool_attached() {
  const char* injected = std::getenv("NVTX_INJECTION64_PATH");
  return injected != nullptr && *injected != '\0';
}

}  // namespace harness
