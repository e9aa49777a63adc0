#include "io/files/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "io/fd.h"
#include "io/files/private_files.h"

namespace longhaul::io {
namespace {

// Calls `call` again while a signal interrupts it.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

Result<Fd> OpenFile(const std::string& path, int flags, std::string_view verb) {
  const int fd = Retry([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (fd < 0) return FromErrno(errno, "cannot " + std::string(verb) + " " + path);
  return Fd(fd);
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status Append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = Retry([&] { return write(fd_.get(), bytes.data(), bytes.size()); });
      if (written < 0) return FromErrno(errno, "cannot write " + path_);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }

  Status Sync() override {
    if (Retry([&] { return fsync(fd_.get()); }) != 0) {
      return FromErrno(errno, "cannot sync " + path_);
    }
    return {};
  }

  Status Close() override {
    // On Linux close frees the descriptor even when it fails; a network file system may still
    // report an error of an earlier write.
    if (close(fd_.Release()) != 0 && errno != EINTR) {
      return FromErrno(errno, "cannot close " + path_);
    }
    return {};
  }

 private:
  Fd fd_;
  std::string path_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Fd fd, std::string path, uint64_t bytes)
      : fd_(std::move(fd)), path_(std::move(path)), bytes_(bytes) {}

  uint64_t bytes() const override { return bytes_; }

  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got =
          Retry([&] { return pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset)); });
      if (got < 0) return FromErrno(errno, "cannot read " + path_);
      if (got == 0) return DataLoss(path_ + " ends at byte " + std::to_string(offset));
      offset += static_cast<uint64_t>(got);
      to = to.subspan(static_cast<size_t>(got));
    }
    return {};
  }

 private:
  Fd fd_;
  std::string path_;
  uint64_t bytes_;
};

class Posix final : public FileSystem {
 public:
  explicit Posix(bool shared) : shared_(shared) {}

  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    // A pipe without a writer must not block: it is refused as no regular file.
    ASSIGN_OR_RETURN(Fd fd, OpenFile(path, O_RDONLY | O_NONBLOCK, "open"));
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "cannot read " + path);
    if (!S_ISREG(info.st_mode)) return InvalidArgument(path + " is not a regular file");
    const auto bytes = static_cast<uint64_t>(info.st_size);
    return std::unique_ptr<ReadableFile>(new PosixReadableFile(std::move(fd), path, bytes));
  }

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    ASSIGN_OR_RETURN(Fd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, "create"));
    if (shared_) ShareFile(fd);
    return std::unique_ptr<WritableFile>(new PosixWritableFile(std::move(fd), path));
  }

  Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t limit) override {
    ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY, "open"));
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "cannot read " + path);
    if (S_ISDIR(info.st_mode)) return InvalidArgument("cannot read " + path + ": is a directory");
    const Status too_long = ResourceExhausted(path + " is longer than the limit of " +
                                              std::to_string(limit) + " bytes");
    const uint64_t expected = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
    if (expected > limit) return too_long;

    // One byte more than expected, so that a file of the expected size ends within one buffer. A
    // file that grows meanwhile, or one without a size (in /proc), is read to its end.
    std::vector<std::byte> bytes(static_cast<size_t>(expected) + 1);
    size_t filled = 0;
    while (true) {
      if (filled == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
      const ssize_t got =
          Retry([&] { return read(fd.get(), bytes.data() + filled, bytes.size() - filled); });
      if (got < 0) return FromErrno(errno, "cannot read " + path);
      if (got == 0) break;
      filled += static_cast<size_t>(got);
      if (filled > limit) return too_long;
    }
    bytes.resize(filled);
    return bytes;
  }

  Result<uint64_t> Size(const std::string& path) override {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return FromErrno(errno, "cannot look at " + path);
    if (!S_ISREG(info.st_mode)) return InvalidArgument(path + " is not a regular file");
    return static_cast<uint64_t>(info.st_size);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return FromErrno(errno, "cannot rename " + from + " to " + to);
    }
    return {};
  }

  Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return FromErrno(errno, "cannot remove " + path);
    return {};
  }

  Status RemoveDirectory(const std::string& path) override {
    if (rmdir(path.c_str()) != 0) return FromErrno(errno, "cannot remove directory " + path);
    return {};
  }

  Status MakeDirectories(const std::string& path) override {
    for (size_t end = 0; end != std::string::npos;) {
      end = path.find('/', end + 1);
      const std::string part = path.substr(0, end);
      if (part.empty()) continue;
      if (mkdir(part.c_str(), 0777) == 0) {
        // A file system without modes refuses this, and needs none.
        if (shared_) (void)!chmod(part.c_str(), 0777 & ~UserUmask());
        continue;
      }
      const int error = errno;
      struct stat info {};
      // Any error of mkdir is ignored (a read-only parent, say) when the directory exists.
      if (stat(part.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
      return FromErrno(error, "cannot make directory " + part);
    }
    return {};
  }

  Status SyncDirectory(const std::string& path) override {
    ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY | O_DIRECTORY, "open directory"));
    if (Retry([&] { return fsync(fd.get()); }) != 0) {
      return FromErrno(errno, "cannot sync directory " + path);
    }
    return {};
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
    if (directory == nullptr) return FromErrno(errno, "cannot list " + path);
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      const dirent* entry = readdir(directory.get());
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return FromErrno(errno, "cannot list " + path);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  const bool shared_;
};

// The directory that holds `path`.
std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status WriteAndSync(FileSystem& files, const std::string& path, std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(path));
  RETURN_IF_ERROR(file->Append(bytes));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

FileSystem& PosixFileSystem() {
  static Posix files(false);
  return files;
}

FileSystem& SharedFileSystem() {
  static Posix files(true);
  return files;
}

void ShareFile(const Fd& file) {
  // A file system without modes refuses this, and needs none.
  (void)!fchmod(file.get(), 0666 & ~UserUmask());
}

Result<std::string> ReadText(const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, PosixFileSystem().ReadAll(path, limit));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status WriteFileAtomically(FileSystem& files, const std::string& path,
                           std::span<const std::byte> bytes) {
  if (files.appears_whole()) return WriteAndSync(files, path, bytes);
  const std::string temporary = path + ".tmp";
  Status written = WriteAndSync(files, temporary, bytes);
  if (written.ok()) written = files.Rename(temporary, path);
  if (!written.ok()) {
    // The remains of the attempt are useless; the first failure is reported.
    (void)files.Remove(temporary);
    return written;
  }
  return files.SyncDirectory(ParentOf(path));
}

Status WriteTextAtomically(FileSystem& files, const std::string& path, std::string_view text) {
  return WriteFileAtomically(files, path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace longhaul::io
