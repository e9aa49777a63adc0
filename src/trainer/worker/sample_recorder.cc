#include "trainer/worker/sample_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "corpus/sample_record.h"
#include "io/files/file.h"

namespace longhaul::trainer {

SampleRecorder::SampleRecorder(io::Fd fd, std::string path, uint64_t attempt, uint32_t rank)
    : fd_(std::move(fd)), path_(std::move(path)), attempt_(attempt), rank_(rank) {}

Result<std::unique_ptr<SampleRecorder>> SampleRecorder::Open(const std::string& run_directory,
                                                             uint64_t attempt, uint32_t rank) {
  const std::string directory = run_directory + "/samples";
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(directory));
  const std::string path =
      directory + "/rank-" + std::to_string(rank) + ".e" + std::to_string(attempt) + ".bin";
  io::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) return FromErrno(errno, "cannot open " + path);
  return std::unique_ptr<SampleRecorder>(new SampleRecorder(std::move(fd), path, attempt, rank));
}

Status SampleRecorder::Append(uint64_t step, std::span<const uint64_t> samples) {
  const auto bytes = corpus::EncodeSampleRecord(
      {attempt_, step, rank_, std::vector<uint64_t>(samples.begin(), samples.end())});
  const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) return {};
  return written < 0 ? FromErrno(errno, "cannot write " + path_)
                     : ResourceExhausted("cannot write all of a record to " + path_);
}

}  // namespace longhaul::trainer
