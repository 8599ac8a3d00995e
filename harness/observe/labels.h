// Which part of a step the work on a thread belongs to: a phase, a layer, a part of the model. The workload sets the
// label as it goes. Attached tools see it as NVTX ranges (domain "gpt2-ladder"), and the tracers read it.
//
// The backward pass runs on autograd's threads, in nodes that do not know their layer. So each forward operation notes
// its sequence number. The autograd node that it created has the same number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

struct Label {
  std::string phase, part;  // "backward", "c_fc"; empty without a label
  int64_t layer = -1;       // -1: outside the blocks
  auto operator<=>(const Label&) const = default;
};

class Labels {
 public:
  // Ranges cost nanoseconds without a tool. follow_autograd remembers labels, at about a microsecond per operation. Use
  // it in a timed run only if a tool is attached.
  explicit Labels(bool follow_autograd);
  ~Labels();
  Labels(const Labels&) = delete;  // the process has one: a second one throws std::logic_error
  Labels& operator=(const Labels&) = delete;

  // From the workload's thread. A phase ends when the next begins; "" ends the step. A part ends with the next part or
  // phase.
  void begin_phase(std::string_view phase);
  void begin_part(int64_t layer, std::string_view part);

  // The label of the calling thread's work, as an index for at(). 0 is the empty label.
  [[nodiscard]] static int current();
  [[nodiscard]] Label at(int id) const;

 private:
  // NVTX ranges of the workload's thread, each within the one before.
  enum class Level { nothing, step, phase, layer, part };
  void open(Level level, const char* text);
  void close_to(Level level);

  void remember(const std::string& part) const;

  std::vector<Level> open_;
  std::string phase_, part_;
  int64_t layer_ = -1;
  bool following_;
  uint64_t callback_ = 0;
};

// Whether an NVTX tool (Nsight Systems, Nsight Compute) has been injected into this process.
bool nvtx_tool_attached();

}  // namespace harness
