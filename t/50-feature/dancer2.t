# Dancer2 applications from Debian's package: its examples, and what `dancer2 gen` makes, to which only the routes for an
# upload and a download are added.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Agent;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file);
use Howdah::Test::Server;
use Test::More;

eval { require Dancer2; 1 } or plan skip_all => 'Dancer2 is not installed';
my $examples = '/usr/share/doc/libdancer2-perl/examples/single';

subtest 'generated application' => sub {
    my $dancer = (grep { -x } map { "$_/dancer2" } split /:/, $ENV{PATH})[0] or plan skip_all => 'no dancer2 command';
    my $dir    = File::Temp->newdir;
    my ($made, undef, $trouble) = run_command('sh', '-c', "cd $dir && $^X $dancer gen -a Caravan");
    is $made, 0 or diag $trouble;
    my $server = Howdah::Test::Server->start(app => <<"PSGI", options => ['--workers', 2]);
    use lib '$dir/Caravan/lib';
    use Caravan;
    package Caravan::Files {
        use Dancer2 appname => 'Caravan';
        use Digest::MD5 'md5_hex';
        post '/upload' => sub {
            my \$file = upload('file');
            return join ' ', md5_hex(\$file->content), \$file->filename, body_parameters->get('note');
        };
        get '/download' => sub {
            delayed {
                flush;
                content 'd' x (1 << 20) for 1 .. 20;
                done;
            };
        };
        get '/file' => sub { send_file('$dir/Caravan/public/404.html', system_path => 1) };
    }
    Caravan->to_app;
PSGI
    my $agent = Howdah::Test::Agent->new($server->url);
    like $agent->get('/')->decoded_content, qr/<!DOCTYPE html.*<title>Caravan/is, 'template by LWP';
    my ($status, $body) = $agent->curl('/');
    like "$status $body", qr/^200 .*<title>Caravan/s, 'template by curl';
    is + ($agent->curl('/css/style.css'))[1], read_file("$dir/Caravan/public/css/style.css"), 'static file';
    is + ($agent->curl('/file'))[1], read_file("$dir/Caravan/public/404.html"), 'sent file';
    is + ($agent->curl('/missing'))[0], 404;

    my ($file, $md5) = Howdah::Test::Agent->large_file(20 << 20);
    my $answer = $agent->post('/upload', [note => 'by LWP', file => ["$file"]], 'Content-Type' => 'form-data');
    like $answer->content, qr/^$md5 \S+\.bin by LWP$/, '20 MiB by LWP';
    like + ($agent->curl('/upload', '-F', 'note=by curl', '-F', "file=\@$file"))[1], qr/^$md5 \S+ by curl$/, 'by curl';

    is md5_hex($agent->get('/download')->content), md5_hex('d' x (20 << 20)), 'streamed download by LWP';
    is md5_hex(($agent->curl('/download'))[1]), md5_hex('d' x (20 << 20)), 'by curl';
};

subtest 'calculator: a form post' => sub {
    plan skip_all => "no $examples" if !-e "$examples/simple_calculator.psgi";
    my $server = Howdah::Test::Server->start(file => "$examples/simple_calculator.psgi");
    my $agent  = Howdah::Test::Agent->new($server->url);
    like $agent->get('/')->content, qr/<form method="POST"/;
    is $agent->post('/division', [x => 84, y => 2])->content, 42, 'form by LWP';
    is join(' ', $agent->curl('/division', '-d', 'x=84&y=2')), '200 42', 'by curl';
    is $agent->get('/add/20/22')->content, 42;
    is $agent->get('/multiply?x=6&y=7')->content, 42;
    is $agent->post('/division', [x => 1, y => 0])->code, 500, 'dividing by zero';
};

done_testing;
