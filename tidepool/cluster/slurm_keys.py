"""The keys of Slurm's configuration files, release by release.

Source: the option tables that Slurm itself checks its files with, in the source of each release's newest version
(``src/common/read_config.c``, ``src/interfaces/gres.c``, ``src/interfaces/cgroup.c``, and
``src/plugins/topology/tree/switch_record.c``, or where 22.05 has them). A key that a release calls defunct counts
as removed. ControlMachine, ControlAddr, CryptoType and FastSchedule are left out: they are read for old files' sake.

A table is lines ``kind span:`` with the names below. The span is ``since..until``, both included and open where
nothing stands; without one, the keys are in every release that is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, cast

from tidepool.cluster.slurm_releases import RELEASES, Release

Kind = Literal["text", "line", "bool", "uint16", "uint32", "uint64", "float"]
"""The kind of a value. ``line`` begins a line of its own, with keys of its own, and may stand many times."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a configuration file, in Slurm's spelling, and the releases that know it."""

    name: str
    kind: Kind
    releases: tuple[Release, ...]


Table = MappingProxyType[str, Key]
"""Keys by their name in lower case: Slurm does not tell the cases apart."""


def _table(text: str) -> Table:
    keys: dict[str, Key] = {}
    kind, releases = cast(Kind, ""), RELEASES
    for line in text.strip().splitlines():
        if line.endswith(":"):
            word, _, span = line.removesuffix(":").partition(" ")
            since, _, until = span.partition("..")
            kind = cast(Kind, word)
            releases = tuple(r for r in RELEASES if (since or r) <= r <= (until or r))
        else:
            keys |= {name.lower(): Key(name, kind, releases) for name in line.split()}
    return MappingProxyType(keys)


SLURM_CONF: Final = _table("""
bool:
    AccountingStoreJobComment AllowSpecResourcesUsage DisableRootJobs PriorityFavorSmall TrackWCKey UsePAM
line:
    DownNodes NodeName NodeSet PartitionName SlurmctldHost
line ..24.11:
    FrontendName
line 26.05..:
    PowerAction
text:
    AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
    AccountingStorageParameters AccountingStoragePass AccountingStorageTRES AccountingStorageType
    AccountingStoreFlags AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
    AcctGatherInterconnectType AcctGatherProfileType AuthAltParameters AuthAltTypes AuthInfo AuthType
    BackupAddr BackupController BcastExclude BcastParameters BurstBufferParameters BurstBufferType
    CliFilterPlugins ClusterName CommunicationParameters CpuFreqDef
    CpuFreqGovernors CredType DebugFlags DependencyParameters EnforcePartLimits Epilog
    EpilogSlurmctld FederationParameters GpuFreqDef GresTypes HealthCheckNodeState HealthCheckProgram
    InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost
    JobCompLoc JobCompParams JobCompPass JobCompType JobCompUser JobContainerType JobSubmitPlugins
    LaunchParameters LaunchType Licenses LogTimeFormat MailDomain MailProg MCSParameters MCSPlugin
    MpiDefault MpiParams NodeFeaturesPlugins PluginDir PlugStackConfig PreemptExemptTime PreemptMode
    PreemptType PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife PriorityFlags
    PriorityMaxAge PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType
    PriorityUsageResetPeriod PriorityWeightTRES PrivateData ProctrackType Prolog PrologFlags PrologSlurmctld
    PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram ReconfigFlags RequeueExit
    RequeueExitHold ResumeFailProgram ResumeProgram ResvEpilog ResvProlog RoutePlugin SallocDefaultCommand
    SbcastParameters SchedulerParameters SchedulerType ScronParameters SelectType SelectTypeParameters
    SlurmctldAddr SlurmctldDebug SlurmctldLogFile SlurmctldParameters SlurmctldPidFile SlurmctldPort
    SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmdDebug SlurmdLogFile
    SlurmdParameters SlurmdPidFile SlurmdSpoolDir SlurmdSyslogDebug SlurmdUser SlurmSchedLogFile SlurmUser
    SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes SuspendExcParts SuspendProgram
    SuspendTime SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TmpFS
    TopologyParam TopologyPlugin UnkillableStepProgram X11Parameters
text ..22.05:
    SlurmctldPlugstack
text ..23.02:
    ExtSensorsType JobCredentialPrivateKey JobCredentialPublicCertificate
text ..23.11:
    CoreSpecPlugin PowerParameters PowerPlugin
text ..25.05:
    AccountingStorageLoc AccountingStorageUser
text 23.02..:
    PreemptParameters SuspendExcStates
text 24.05..:
    HashPlugin TLSParameters TLSType
text 24.11..:
    CertmgrParameters CertmgrType DataParserParameters
text 25.05..:
    CertgenParameters CertgenType
text 25.11..:
    CliFilterParameters HttpParserType JobCompPassScript MetricsType NamespaceType UrlParserType
text 26.05..:
    LicenseParameters MetricsAuthUsers MetricsParameters SlurmctldHttpAuthParameters
    SlurmdHttpAuthParameters
uint16:
    AccountingStoragePort AcctGatherNodeFreq BatchStartTimeout CompleteWait EioTimeout
    FairShareDampeningFactor GroupUpdateForce GroupUpdateTime HealthCheckInterval InactiveLimit
    JobFileAppend JobRequeue KillOnBadExit KillWait MaxTasksPerNode MessageTimeout OverTimeLimit
    PrologEpilogTimeout PropagatePrioProcess ResumeRate ResumeTimeout ResvOverRun ReturnToService
    SchedulerTimeSlice SlurmctldTimeout SlurmdTimeout SlurmSchedLogLevel SuspendRate SuspendTimeout
    TCPTimeout TreeWidth UnkillableStepTimeout VSizeFactor WaitTime
uint16 ..23.02:
    ExtSensorsFreq
uint16 ..24.11:
    GetEnvTimeout
uint16 25.05..:
    EpilogTimeout PrologTimeout
uint16 26.05..:
    HealthCheckTimeout
uint32:
    EpilogMsgTime FirstJobId JobCompPort KeepAliveTime MaxArraySize MaxDBDMsgs MaxJobCount MaxJobId
    MaxNodeCount MaxStepCount MinJobAge PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare
    PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS SlurmdPort
uint32 23.02..:
    MaxBatchRequeue
uint64:
    DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode
""")

NODE_LINE: Final = _table("""
text:
    BcastAddr CpuBind CPUSpecList Feature Features Gres NodeAddr NodeHostname NodeName Port Reason State TRESWeights
text 25.05..:
    Topology
text 25.11..:
    GresConf Parameters
text 26.05..:
    SuspendTime
uint16:
    Boards CoreSpecCount CoresPerSocket CPUs Procs Sockets SocketsPerBoard ThreadsPerCore
uint16 24.05..:
    RestrictedCoresPerGPU
uint32:
    TmpDisk Weight
uint64:
    MemSpecLimit RealMemory
""")

PARTITION_LINE: Final = _table("""
bool:
    Default DisableRootJobs ExclusiveUser Hidden LLN ReqResv RootOnly
bool 23.02..:
    PowerDownOnIdle
bool 24.05..:
    ExclusiveTopo
text:
    AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DefaultTime DenyAccounts DenyQos MaxTime
    Nodes PartitionName OverSubscribe OverTimeLimit PreemptMode QOS SelectTypeParameters Shared State SuspendTime
    TRESBillingWeights
text 25.05..:
    Topology
text 26.05..:
    Exclusive
uint16:
    Priority PriorityJobFactor PriorityTier ResumeTimeout SuspendTimeout
uint32:
    GraceTime MaxCPUsPerNode MaxNodes MinNodes
uint32 23.02..:
    MaxCPUsPerSocket
uint64:
    DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode
""")

NODE_SET_LINE: Final = _table("""
text:
    Feature Nodes NodeSet
""")

CGROUP_CONF: Final = _table("""
bool:
    ConstrainCores ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace IgnoreSystemd
    IgnoreSystemdOnFailure MemoryLimitEnforcement
bool ..23.02:
    CgroupAutomount ConstrainKmemSpace
bool 23.02..:
    EnableControllers
bool 23.02..23.02:
    RootOwnedCgroups
bool 23.11..:
    SignalChildrenProcesses
bool 26.05..:
    CgroupJobIdPaths
float:
    AllowedRAMSpace AllowedSwapSpace MaxRAMPercent MaxSwapPercent MemoryLimitThreshold
float ..23.02:
    AllowedKmemSpace MaxKmemPercent
text:
    AllowedDevicesFile CgroupMountpoint CgroupPlugin
text ..25.05:
    CgroupReleaseAgentDir
text 25.05..:
    EnableExtraControllers
text 25.11..:
    CgroupSlice
uint64:
    MemorySwappiness MinRAMSpace
uint64 ..23.02:
    MinKmemSpace
uint64 24.05..:
    SystemdTimeout
""")

GRES_LINE: Final = _table("""
text:
    AutoDetect Cores Count CPUs File Files Flags Link Links MultipleFiles Name NodeName Type
""")

SWITCH_LINE: Final = _table("""
text:
    Nodes SwitchName Switches
uint32:
    LinkSpeed
""")
