// The metadata of another operator's job as that of a LonghaulJob.
#pragma once

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// Name, namespace, labels and annotations. `labels` and `annotations` are added, where they are no
// null; those of the metadata come first. A name that a LonghaulJob cannot have is an error.
JobJson TranslateJobMetadata(const JobJson& metadata, const JobJson& labels,
                             const JobJson& annotations, Translation& translation);

}  // namespace longhaul::engines::kubernetes
