// An NVTX tool, as Nsight Systems is one: a library that NVTX_INJECTION64_PATH names is loaded by the first NVTX call
// of a process. This one writes each range that begins or ends to the file that NVTX_TOOL_FILE names, a line each:
// thread, domain, "push" or "pop", name; with tabs between.
//
// NVTX is headers only: each library that is built with it has its own copy, and each copy attaches the tool again.
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

struct nvtxDomainRegistration_st {
  std::string name;
};

namespace {

std::FILE* opened_file() {
  const char* name = std::getenv("NVTX_TOOL_FILE");
  std::FILE* file = name == nullptr ? nullptr : std::fopen(name, "w");
  if (file != nullptr) std::setvbuf(file, nullptr, _IOLBF, BUFSIZ);  // whole lines, also of a process that is killed
  return file;
}

std::FILE* file() {
  static std::FILE* const opened = opened_file();
  return opened;
}

void write(nvtxDomainHandle_t domain, const char* what, const char* name) {
  std::fprintf(file(), "%d\t%s\t%s\t%s\n", gettid(), domain == nullptr ? "" : domain->name.c_str(), what, name);
}

nvtxDomainHandle_t create_domain(const char* name) { return new nvtxDomainRegistration_st{name}; }  // never destroyed

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  write(domain, "push", event->messageType == NVTX_MESSAGE_TYPE_ASCII ? event->message.ascii : "not ASCII");
  return NVTX_NO_PUSH_POP_TRACKING;
}

int pop(nvtxDomainHandle_t domain) {
  write(domain, "pop", "");
  return NVTX_NO_PUSH_POP_TRACKING;
}

}  // namespace

// 1 where the tool is attached.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (file() == nullptr || callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  const auto replace = [&](NvtxCallbackIdCore2 id, auto* function) {
    *functions[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  replace(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  replace(NVTX_CBID_CORE2_DomainRangePushEx, push);
  replace(NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
