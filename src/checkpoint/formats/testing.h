// For tests and fuzzers of formats: files in memory. Header only; not part of the library.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "io/files/file.h"

namespace longhaul::checkpoint::testing_support {

class MemoryFile final : public io::ReadableFile {
 public:
  explicit MemoryFile(std::string content) : content_(std::move(content)) {}
  uint64_t bytes() const override { return content_.size(); }
  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > content_.size() || to.size() > content_.size() - offset) {
      return DataLoss("the file ends at byte " + std::to_string(content_.size()));
    }
    if (!to.empty()) std::memcpy(to.data(), content_.data() + offset, to.size());
    return {};
  }

 private:
  std::string content_;
};

inline void Put(io::FileSystem& files, const std::string& path, std::string_view content) {
  auto file = files.Create(path);
  CHECK(file.ok()) << file.status().message();
  CHECK((*file)->Append(std::as_bytes(std::span(content.data(), content.size()))).ok());
  CHECK((*file)->Close().ok());
}

}  // namespace longhaul::checkpoint::testing_support
