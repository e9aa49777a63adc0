#include "service/agent/native_stacks/unwinder.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <libelf.h>
#include <linux/openat2.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "io/fd.h"
#include "service/agent/native_stacks/call_name.h"

namespace longhaul::service {

struct UnwinderState {
  const CopiedProcess& process;
  KnownCalls& known;
  Dwfl* dwfl = nullptr;
  std::string problem;
  const CopiedThread* thread = nullptr;  // that is unwound
  std::vector<std::string> calls;        // of it
};

namespace {

constexpr char kVdso[] = "[vdso]";
constexpr uint64_t kVdsoBytes = 2 * 4096;

// A file of the process, as its root directory has it: links lead nowhere else.
io::Fd OpenFile(const CopiedProcess& process, const char* path) {
  open_how how{};
  how.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  io::Fd file(static_cast<int>(syscall(SYS_openat2, process.root.get(), path, &how, sizeof(how))));
  struct stat facts {};
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return io::Fd();
  return file;
}

int FindElf(Dwfl_Module*, void** user, const char* name, Dwarf_Addr, char** path, Elf** elf) {
  const auto* state = static_cast<const UnwinderState*>(*user);
  if (state == nullptr) return -1;
  if (std::string_view(name) == kVdso) {
    // The kernel gives the same one to all processes.
    const auto image = static_cast<uintptr_t>(getauxval(AT_SYSINFO_EHDR));
    if (image != 0) *elf = elf_memory(reinterpret_cast<char*>(image), kVdsoBytes);
    return -1;
  }
  io::Fd file = OpenFile(state->process, name);
  if (file.valid()) *path = strdup(name);
  return file.Release();
}

int FindNoDebugInformation(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                           GElf_Word, char**) {
  return -1;
}

pid_t NextThread(Dwfl*, void* argument, void** thread) {
  const auto* state = static_cast<const UnwinderState*>(argument);
  if (*thread != nullptr || state->thread == nullptr) return 0;
  *thread = argument;
  return state->thread->thread;
}

// Only what was copied: the stack. All else that unwinding needs is in the files.
bool ReadMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
  const CopiedThread& thread = *static_cast<const UnwinderState*>(argument)->thread;
  const uint64_t offset = address - thread.stack_start;
  if (address < thread.stack_start || thread.stack.size() < sizeof(*result) ||
      offset > thread.stack.size() - sizeof(*result)) {
    return false;
  }
  std::memcpy(result, thread.stack.data() + offset, sizeof(*result));
  return true;
}

// In the order of the numbers that DWARF gives them (System V ABI for AMD64, figure 3.36).
bool SetRegisters(Dwfl_Thread* thread, void* argument) {
  const user_regs_struct& from = static_cast<const UnwinderState*>(argument)->thread->registers;
  const std::array<Dwarf_Word, 17> registers = {
      from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi, from.rbp, from.rsp, from.r8,
      from.r9,  from.r10, from.r11, from.r12, from.r13, from.r14, from.r15, from.rip};
  return dwfl_thread_state_registers(thread, 0, registers.size(), registers.data());
}

int GiveState(Dwfl_Module*, void** user, const char*, Dwarf_Addr, void* state) {
  *user = state;
  return DWARF_CB_OK;
}

// Adds the kernel's vdso, which is no file: dwfl_linux_proc_maps_report leaves it out.
void ReportVdso(const CopiedProcess& process, Dwfl* dwfl) {
  for (const std::string_view line : Split(process.maps, '\n')) {
    if (!line.ends_with(kVdso)) continue;
    unsigned long start = 0;
    unsigned long end = 0;
    const std::string text(line);
    if (std::sscanf(text.c_str(), "%lx-%lx", &start, &end) != 2) return;
    if (end - start == kVdsoBytes) dwfl_report_module(dwfl, kVdso, start, end);
    return;
  }
}

std::string NameOf(UnwinderState& state, Dwarf_Addr address) {
  Dwfl_Module* module = dwfl_addrmodule(state.dwfl, address);
  if (module == nullptr) return "?";
  Dwarf_Addr start = 0;
  const char* path =
      dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
  const std::string file = path == nullptr ? "?" : path;
  std::string& name = state.known[{file, address - start}];
  if (!name.empty()) return name;
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  const char* found =
      dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
  // A file without its table of local symbols has only the exported ones: the next one below the
  // address may be another function.
  const bool inside = found != nullptr && offset < std::max<GElf_Xword>(symbol.st_size, 1);
  name = inside ? CallName(found) : Printable(file.substr(file.rfind('/') + 1), 64) + "+?";
  return name;
}

int AddCall(Dwfl_Frame* frame, void* argument) {
  auto& state = *static_cast<UnwinderState*>(argument);
  Dwarf_Addr address = 0;
  bool is_interrupted = false;
  if (!dwfl_frame_pc(frame, &address, &is_interrupted)) return DWARF_CB_ABORT;
  // A return address may be the first one of the next function.
  if (!is_interrupted) --address;
  state.calls.push_back(NameOf(state, address));
  return state.calls.size() < kMostNativeCalls ? DWARF_CB_OK : DWARF_CB_ABORT;
}

const Dwfl_Callbacks kFiles = {FindElf, FindNoDebugInformation, nullptr, nullptr};
const Dwfl_Thread_Callbacks kThreads = {NextThread,   nullptr, ReadMemory,
                                        SetRegisters, nullptr, nullptr};

}  // namespace

Unwinder::Unwinder(const CopiedProcess& process, KnownCalls& known)
    : state_(new UnwinderState{process, known, dwfl_begin(&kFiles), "", nullptr, {}}) {
  std::string maps = process.maps;
  FILE* file = maps.empty() ? nullptr : fmemopen(maps.data(), maps.size(), "r");
  if (state_->dwfl == nullptr || file == nullptr) {
    state_->problem = "its memory map is empty";
    if (file != nullptr) fclose(file);
    return;
  }
  const int reported = dwfl_linux_proc_maps_report(state_->dwfl, file);
  fclose(file);
  ReportVdso(process, state_->dwfl);
  dwfl_report_end(state_->dwfl, nullptr, nullptr);
  dwfl_getmodules(state_->dwfl, GiveState, state_.get(), 0);
  if (reported != 0 ||
      !dwfl_attach_state(state_->dwfl, nullptr, process.process, &kThreads, state_.get())) {
    state_->problem = "its program cannot be read: " + std::string(dwfl_errmsg(-1));
  }
}

Unwinder::~Unwinder() {
  if (state_->dwfl != nullptr) dwfl_end(state_->dwfl);
}

std::vector<std::string> Unwinder::Calls(const CopiedThread& thread, std::string& problem) {
  problem = state_->problem;
  if (!problem.empty()) return {};
  state_->thread = &thread;
  state_->calls.clear();
  const int result = dwfl_getthread_frames(state_->dwfl, thread.thread, AddCall, state_.get());
  if (result < 0 && state_->calls.empty()) problem = dwfl_errmsg(-1);
  state_->thread = nullptr;
  return std::exchange(state_->calls, {});
}

}  // namespace longhaul::service
