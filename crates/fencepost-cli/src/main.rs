//! The command `fencepost`: arguments → settings → command → exit code.

mod args;
mod causes;
mod child;
mod commands;
mod connections;
mod exit_code;
mod failure;
mod held;
mod histogram;
mod hold;
mod logs;
mod output;
mod page;
mod plot;
mod progress;
mod report;
mod settings;
mod version;

use args::{Arguments, Command};
use connections::Connections;
use exit_code::ExitCode;
use failure::Failure;
use settings::Settings;

fn main() -> std::process::ExitCode {
    if let Some(code) = child::shim::play(std::env::args_os()) {
        return code.into();
    }
    #[cfg(feature = "verify")]
    if let Some(code) = commands::verify::client::play(std::env::args_os()) {
        return code.into();
    }
    let connections = Connections::default();
    let code = command(&connections).unwrap_or_else(|failure| {
        output::failure(&failure);
        failure.code
    });
    connections.close();
    output::flush();
    code.into()
}

fn command(connections: &Connections) -> Result<ExitCode, Failure> {
    let Some(Arguments { global, command }) = Arguments::read()? else { return Ok(ExitCode::DONE) };
    let settings = |global| Settings::load(global, connections.clone());
    match command {
        Command::Run(arguments) => commands::run::run(arguments, settings(global)?),
        Command::Once(arguments) => commands::once::once(arguments, settings(global)?),
        Command::Elect(arguments) => commands::elect::elect(arguments, settings(global)?),
        Command::Leader(arguments) => commands::leader::leader(&arguments, &settings(global)?),
        Command::Ls(arguments) => commands::ls::ls(&arguments, &settings(global)?),
        Command::Show(arguments) => commands::show::show(&arguments, &settings(global)?),
        Command::Top(arguments) => commands::top::top(arguments, settings(global)?),
        Command::Release(arguments) => commands::release::release(&arguments, &settings(global)?),
        Command::Check(arguments) => commands::check::check(&arguments, &settings(global)?),
        Command::Bench(arguments) => commands::bench::bench(&arguments, &settings(global)?),
        Command::Doctor => commands::doctor::doctor(&settings(global)?),
        Command::Deadlocks => commands::deadlocks::deadlocks(&settings(global)?),
        #[cfg(feature = "verify")]
        Command::Verify(arguments) => commands::verify::verify(&arguments, &settings(global)?),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => commands::serve::serve(&arguments, &settings(global)?),
        #[cfg(feature = "serve")]
        Command::Key(arguments) => commands::key::key(&arguments, &settings(global)?),
        #[cfg(feature = "serve")]
        Command::Audit(arguments) => commands::audit::audit(&arguments, &settings(global)?),
        Command::Config => commands::config::config(&settings(global)?),
        Command::Init => commands::init::init(&settings(global)?),
        #[cfg(feature = "redis")]
        Command::Reconfigure(arguments) => commands::reconfigure::reconfigure(&arguments, settings(global)?.output),
        Command::Schema(arguments) => commands::schema::schema(&arguments),
        Command::Completions(arguments) => commands::completions::completions(&arguments),
        Command::Man(arguments) => commands::man::man(&arguments),
    }
}
